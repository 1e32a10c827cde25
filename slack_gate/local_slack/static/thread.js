// The thread at the side (over everything on a phone): its first message, the replies, a field to write in.
import { make } from "./dom.js";
import { keepAtEnd, messageNode, sync } from "./messages.js";

let open = null; // ts of the first message
let writing = null; // { ts, node } of the field, kept while the thread stays open

export function openThread(ts, screen) {
  open = ts;
  writing = null;
  showThread(document.getElementById("thread"), screen, openThread.field);
  document.querySelector("#thread textarea")?.focus();
}

export function showThread(panel, screen, field) {
  openThread.field = field;
  const { messages } = screen.state;
  const root = messages.find(({ ts }) => ts === open);
  panel.hidden = !root;
  document.body.classList.toggle("with-thread", Boolean(root));
  if (!root) {
    open = writing = null;
    panel.replaceChildren();
    return;
  }
  const close = () => {
    open = null;
    showThread(panel, screen, field);
  };
  const replies = messages.filter(({ thread }) => thread === open);
  if (writing?.ts !== open) {
    writing = { ts: open, node: field(open), list: make("div", { className: "list", role: "log" }) };
    panel.replaceChildren(
      make("header", {}, make("h2", {}, "Thread"),
        make("button", { type: "button", className: "cross", "aria-label": "Close thread", onclick: close }, "✕")),
      writing.list, make("div", { className: "field" }, writing.node),
    );
  }
  const { list } = writing;
  keepAtEnd(list);
  const count = replies.length
    ? [make("div", { className: "day" }, make("span", {}, `${replies.length} ${replies.length === 1 ? "reply" : "replies"}`))]
    : [];
  sync(list, [messageNode("thread", root, screen), ...count, ...replies.map((one) => messageNode("thread", one, screen))]);
  if (list.keptAtEnd) list.scrollTop = list.scrollHeight;
}
