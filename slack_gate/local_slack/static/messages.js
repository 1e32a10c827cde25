// The DM: every message in its newest version, its reactions, and how many replies its thread has.
import { draw } from "./blocks.js";
import { fresh, make, place } from "./dom.js";
import { emoji, mrkdwn } from "./text.js";

const drawn = new Map(); // where and ts → { drawing, node }
const PIECE = 500; // characters of a snippet shown at first
const CHOICE = ["+1", "white_check_mark", "x", "-1", "eyes"];

export function face(name, app = false) {
  return make("span", { className: app ? "face app" : "face", "aria-hidden": "true" }, name.slice(0, app ? 2 : 1));
}

export function badge() {
  return make("span", { className: "badge" }, "APP");
}

export function showMessages(list, screen) {
  const { messages } = screen.state;
  keepAtEnd(list);
  const nodes = [];
  let day = "";
  for (const message of messages.filter(({ thread }) => !thread)) {
    const today = dayOf(message);
    if (today !== day) nodes.push(make("div", { className: "day" }, make("span", {}, (day = today))));
    nodes.push(messageNode("dm", message, screen));
  }
  const shown = new Set(messages.map(({ ts }) => ts));
  for (const name of drawn.keys()) if (!shown.has(name.split(" ")[1])) drawn.delete(name);
  const empty = make("p", { className: "empty" }, "Nothing has been asked yet.");
  sync(list, nodes.length ? nodes : [empty]);
  if (list.keptAtEnd) list.scrollTop = list.scrollHeight;
}

// Whoever reads the newest goes on seeing it, also when the list gets smaller; whoever scrolled up is left there.
export function keepAtEnd(list) {
  if (list.keptAtEnd !== undefined) return;
  list.keptAtEnd = true;
  list.addEventListener("scroll", () => {
    list.keptAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  });
  new ResizeObserver(() => list.keptAtEnd && (list.scrollTop = list.scrollHeight)).observe(list);
}

function dayOf({ ts }) {
  return new Date(Number(ts) * 1000).toLocaleDateString([], { weekday: "long", month: "long", day: "numeric" });
}

// Changes only what differs, so that focus and open menus stay.
export function sync(list, wanted) {
  const keep = new Set(wanted);
  for (const node of [...list.children]) if (!keep.has(node)) node.remove();
  wanted.forEach((node, number) => {
    if (list.children[number] !== node) list.insertBefore(node, list.children[number] ?? null);
  });
}

// `where` is "dm" or "thread": a message that stands in both is drawn in each.
export function messageNode(where, message, screen) {
  const { state, names, act } = screen;
  const replies = where === "dm" ? state.messages.filter(({ thread }) => thread === message.ts) : [];
  const drawing = JSON.stringify([message.version, message.reactions, replies.length]);
  const old = drawn.get(`${where} ${message.ts}`);
  if (old?.drawing === drawing) return old.node;
  const press = (block, element, option) => act({
    do: "press", ts: message.ts, version: message.version, block_id: block.block_id, action_id: element.action_id,
    option: option?.value,
  });
  const context = { names, press, errors: {}, values: {} };
  const body = message.blocks.length
    ? message.blocks.map((block) => draw(block, context))
    : message.text ? [make("div", { className: "text" }, mrkdwn(message.text, names))] : [];
  const time = new Date(Number(message.ts) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const who = message.author ? names[message.author] ?? message.author : state.app;
  const node = make(
    "article",
    { className: `message${message.ephemeral ? " only-you" : ""}`, "data-ts": message.ts },
    face(who, !message.author),
    make("div", { className: "body" },
      message.ephemeral && make("p", { className: "notice" }, "Only visible to you"),
      make("p", { className: "from" }, make("strong", {}, who), message.author ? null : badge(), make("time", {}, time)),
      body,
      message.files.map(snippet),
      message.ephemeral && make("button", { type: "button", className: "see-more",
        onclick: () => act({ do: "dismiss", ts: message.ts }) }, "Dismiss message"),
      reactions(message, screen),
      replies.length > 0 && make("button", { type: "button", className: "replies", onclick: () => screen.thread(message.ts) },
        `${replies.length} ${replies.length === 1 ? "reply" : "replies"}`)),
    !message.ephemeral && tools(where, message, screen),
  );
  drawn.set(`${where} ${message.ts}`, { drawing, node });
  return node;
}

// As Slack shows a text file: its title, a piece of it, and all of it on demand.
function snippet({ title, text }) {
  const more = text.length > PIECE && make("button", { type: "button", className: "see-more", onclick: () => {
    lines.textContent = text;
    more.remove();
  } }, `Show all ${text.length} characters`);
  const lines = make("pre", { tabindex: "0" }, text.slice(0, PIECE));
  return make("figure", { className: "snippet" }, make("figcaption", {}, title), lines, more);
}

function reactions(message, { state, names, act }) {
  const found = Object.entries(message.reactions);
  return found.length > 0 && make("div", { className: "reactions" }, found.map(([name, users]) => make("button", {
    type: "button", "aria-pressed": String(users.includes(state.user)), title: users.map((id) => names[id] ?? id).join(", "),
    "aria-label": `${name}, ${users.length}`, onclick: () => act({ do: "react", ts: message.ts, name }),
  }, emoji(name), make("span", {}, String(users.length)))));
}

// What Slack shows beside a message under the pointer: an emoji to add, the way into its thread.
function tools(where, message, { act, thread }) {
  const name = fresh();
  const opener = make("button", { type: "button", "aria-label": "Add reaction", popovertarget: name }, "☺");
  const choice = CHOICE.map((each) => make("button", { type: "button", "aria-label": each, onclick: () => {
    menu.hidePopover();
    act({ do: "react", ts: message.ts, name: each });
  } }, emoji(each)));
  const menu = make("div", { id: name, className: "menu emoji", popover: "auto" }, choice);
  menu.addEventListener("toggle", (event) => event.newState === "open" && place(menu, opener));
  const reply = where === "dm" && make("button", { type: "button", "aria-label": "Reply in thread",
    onclick: () => thread(message.thread ?? message.ts) }, "↪");
  return [make("div", { className: "tools" }, opener, reply), menu]; // apart: the menu stays when the tools hide
}
