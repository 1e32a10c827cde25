// The field to write in: a message, or a slash command with Slack's own words when it fails.
import { fresh, make } from "./dom.js";

export function composer({ state, ask, thread }) {
  const closed = state.readOnly && state.commands.length === 0;
  if (closed) return make("p", { className: "closed" }, "Sending messages to this app has been turned off.");
  const name = fresh();
  const hints = state.commands.map(({ command, hint, description }) =>
    make("p", {}, make("strong", {}, `${command} ${hint}`), ` ${description}`));
  const help = make("div", { className: "hints", id: name, hidden: true }, hints);
  const note = make("p", { className: "error", role: "alert" });
  const label = thread ? "Reply…" : `Message ${state.app}`;
  const field = make("textarea", { rows: "1", placeholder: label, "aria-label": label, "aria-describedby": name });
  const send = async () => {
    const text = field.value.trim();
    if (!text) return;
    field.disabled = true;
    const answer = await ask({ do: "type", text, thread });
    field.disabled = false;
    note.textContent = answer.error ?? (answer.acknowledged ? "" : "That did not work. Try again.");
    if (answer.acknowledged) field.value = "";
    help.hidden = true;
    field.focus();
  };
  field.addEventListener("input", () => (help.hidden = thread || !field.value.startsWith("/")));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    send();
  });
  const button = make("button", { type: "button", className: "button primary send", "aria-label": "Send", onclick: send }, "➤");
  return make("div", { className: "composer" }, help, make("div", { className: "row" }, field, button), note);
}
