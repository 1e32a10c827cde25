// The screen: takes the state the server pushes, redraws what changed, sends what is pressed.
import { make } from "./dom.js";
import { composer } from "./composer.js";
import { showHome } from "./home.js";
import { face, badge, showMessages } from "./messages.js";
import { showModal } from "./modal.js";
import { openThread, showThread } from "./thread.js";

const query = new URLSearchParams(location.search);
const key = query.get("key") ?? "";
let state = null;
let tab = query.get("tab") === "home" ? "home" : "messages";

const spot = (id) => document.getElementById(id);

// What the server answers to something the person did; an object without `acknowledged` when it did not answer.
async function ask(body) {
  const answer = await fetch(`/page/act?key=${encodeURIComponent(key)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ user: state.user, ...body }),
  }).catch(() => null);
  return answer?.ok ? answer.json() : {};
}

async function act(body) {
  return Boolean((await ask(body)).acknowledged);
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
  const first = state === null;
  state = next;
  const names = Object.fromEntries([...state.people.map(({ id, name }) => [id, name]), [state.bot, state.app]]);
  document.title = state.user ? `${names[state.user]} · Local Slack` : "Local Slack";
  const frame = JSON.stringify([state.people, state.user, state.app, state.commands, state.homeTab, state.readOnly]);
  if (frame !== show.frame) showFrame();
  show.frame = frame;
  const screen = { state, names, act, thread: (ts) => openThread(ts, screen) };
  if (state.user) {
    if (first) turnTo(state.homeTab ? tab : "messages");
    showMessages(spot("messages"), screen);
    showHome(spot("home"), screen);
    showThread(spot("thread"), screen, (ts) => composer({ state, ask, thread: ts }));
  } else spot("messages").replaceChildren(make("p", { className: "empty" }, "Whose messages do you want to see?"));
  showModal(state.modal, names, act);
}

function showFrame() {
  const people = state.people.map(({ id, name }) => make("a", {
    href: `/?${new URLSearchParams({ key, user: id, tab })}`, "aria-current": id === state.user && "page",
  }, face(name), make("span", {}, name)));
  spot("people").replaceChildren(make("h1", {}, "Local Slack"), make("p", {}, "You are"), ...people);
  const title = make("div", { className: "title" }, face(state.app, true), make("h2", {}, state.app), badge());
  spot("top").replaceChildren(title, make("span", { className: "status", role: "status" }));
  spot("foot").replaceChildren(state.user ? composer({ state, ask }) : "");
  const tabs = state.user && state.homeTab ? [["home", "Home"], ["messages", "Messages"]] : [];
  spot("tabs").hidden = tabs.length === 0;
  spot("tabs").replaceChildren(...tabs.map(([name, label]) => make("button", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-controls": name, "aria-selected": String(name === tab),
    onclick: () => turnTo(name),
  }, label)));
}

// Shows a tab and tells the app that it is looked at, as Slack does each time.
function turnTo(name) {
  tab = name;
  for (const each of spot("tabs").children) each.setAttribute("aria-selected", String(each.id === `tab-${name}`));
  spot("home").hidden = name !== "home";
  spot("messages").hidden = spot("foot").hidden = name === "home";
  if (name === "messages") spot("messages").scrollTop = spot("messages").scrollHeight;
  if (state.homeTab) act({ do: "open", tab: name });
}

connect();
