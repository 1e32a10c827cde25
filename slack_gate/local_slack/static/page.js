// The screen: takes the state the server pushes, redraws what changed, sends what is pressed.
import { draw } from "./blocks.js";
import { make } from "./dom.js";
import { mrkdwn } from "./text.js";
import { showModal } from "./modal.js";

const query = new URLSearchParams(location.search);
const key = query.get("key") ?? "";
const drawn = new Map(); // ts → { version, node }
let state = null;

const spot = (id) => document.getElementById(id);

async function act(body) {
  const answer = await fetch(`/page/act?key=${encodeURIComponent(key)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ user: state.user, ...body }),
  }).catch(() => null);
  return Boolean(answer?.ok && (await answer.json()).acknowledged);
}

function connect() {
  const user = encodeURIComponent(query.get("user") ?? "");
  const live = new WebSocket(`ws://${location.host}/page/live?key=${encodeURIComponent(key)}&user=${user}`);
  live.addEventListener("open", () => document.body.classList.remove("offline"));
  live.addEventListener("message", (event) => show(JSON.parse(event.data)));
  live.addEventListener("close", () => {
    document.body.classList.add("offline");
    setTimeout(connect, 1000);
  });
}

function show(next) {
  state = next;
  const names = Object.fromEntries([...state.people.map(({ id, name }) => [id, name]), [state.bot, state.app]]);
  document.title = state.user ? `${names[state.user]} · Local Slack` : "Local Slack";
  const faces = JSON.stringify([state.people, state.user, state.app]);
  if (faces !== show.faces) showPeople();
  show.faces = faces;
  if (state.user) showMessages(names);
  else spot("messages").replaceChildren(make("p", { className: "empty" }, "Whose messages do you want to see?"));
  showModal(state.modal, names, act);
}

function showPeople() {
  const people = state.people.map(({ id, name }) => make("a", {
    href: `/?${new URLSearchParams({ key, user: id })}`, "aria-current": id === state.user && "page",
  }, face(name), make("span", {}, name)));
  spot("people").replaceChildren(make("h1", {}, "Local Slack"), make("p", {}, "You are"), ...people);
  const title = make("div", { className: "title" }, face(state.app, true), make("h2", {}, state.app), badge());
  spot("top").replaceChildren(title, make("span", { className: "status", role: "status" }));
  spot("foot").replaceChildren(`Messages between ${state.app} and you. Press the buttons to answer.`);
}

function face(name, app = false) {
  return make("span", { className: app ? "face app" : "face", "aria-hidden": "true" }, name.slice(0, app ? 2 : 1));
}

function badge() {
  return make("span", { className: "badge" }, "APP");
}

function showMessages(names) {
  const list = spot("messages");
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  const before = drawn.size;
  const nodes = [];
  let day = "";
  for (const message of ordered(state.messages)) {
    const today = new Date(Number(message.ts) * 1000).toLocaleDateString([], { weekday: "long", month: "long", day: "numeric" });
    if (today !== day) nodes.push(make("div", { className: "day" }, make("span", {}, (day = today))));
    nodes.push(messageNode(message, names));
  }
  const shown = new Set(state.messages.map(({ ts }) => ts));
  for (const ts of drawn.keys()) if (!shown.has(ts)) drawn.delete(ts);
  const empty = make("p", { className: "empty" }, "Nothing has been asked yet.");
  const wanted = state.messages.length ? nodes : [empty];
  sync(list, wanted);
  if (atEnd || before === 0) list.scrollTop = list.scrollHeight;
}

// Replies stand below the message they belong to.
function ordered(messages) {
  const replies = Map.groupBy(messages.filter(({ thread }) => thread), ({ thread }) => thread);
  return messages.filter(({ thread }) => !thread).flatMap((message) => [message, ...(replies.get(message.ts) ?? [])]);
}

// Changes only what differs, so that focus and open menus stay.
function sync(list, wanted) {
  const keep = new Set(wanted);
  for (const node of [...list.children]) if (!keep.has(node)) node.remove();
  wanted.forEach((node, number) => {
    if (list.children[number] !== node) list.insertBefore(node, list.children[number] ?? null);
  });
}

function messageNode(message, names) {
  const old = drawn.get(message.ts);
  if (old?.version === message.version) return old.node;
  const press = (block, element, option) => act({
    do: "press", ts: message.ts, version: message.version, block_id: block.block_id, action_id: element.action_id,
    option: option?.value,
  });
  const context = { names, press, errors: {}, values: {} };
  const body = message.blocks.length
    ? message.blocks.map((block) => draw(block, context))
    : [make("div", { className: "text" }, mrkdwn(message.text, names))];
  const time = new Date(Number(message.ts) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const node = make(
    "article",
    { className: `message${message.thread ? " reply" : ""}${message.ephemeral ? " only-you" : ""}`, "data-ts": message.ts },
    face(state.app, true),
    make("div", { className: "body" },
      message.ephemeral && make("p", { className: "notice" }, "Only visible to you"),
      make("p", { className: "from" }, make("strong", {}, state.app), badge(), make("time", {}, time)),
      body,
      message.ephemeral && make("button", { type: "button", className: "see-more",
        onclick: () => act({ do: "dismiss", ts: message.ts }) }, "Dismiss message")),
  );
  drawn.set(message.ts, { version: message.version, node });
  return node;
}

connect();
