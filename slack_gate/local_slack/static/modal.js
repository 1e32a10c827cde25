// The modal on top: drawn once, redrawn when the app changes it or puts errors below inputs; what was typed stays.
import { draw } from "./blocks.js";
import { make } from "./dom.js";
import { plain } from "./text.js";

let open = null; // { id, drawing, dialog }

export function showModal(modal, names, act) {
  if (!modal) return leave();
  const drawing = `${modal.hash} ${JSON.stringify(modal.errors)}`;
  if (open?.id === modal.id && open.drawing === drawing) return;
  const values = open?.id === modal.id ? filled(open.dialog) : {};
  leave();
  const dialog = build(modal, { names, errors: modal.errors, values, press: async () => false }, act);
  document.body.append(dialog);
  dialog.showModal();
  (dialog.querySelector(".wrong [data-action], [autofocus], [data-action]") ?? dialog).focus();
  open = { id: modal.id, drawing, dialog };
}

function leave() {
  open?.dialog.remove();
  open = null;
}

function filled(dialog) {
  return Object.fromEntries([...dialog.querySelectorAll("[data-action]")].map((node) => [node.dataset.action, node.read()]));
}

function build(modal, context, act) {
  const close = () => act({ do: "close", modal: modal.id });
  const note = make("p", { className: "error", role: "alert" }, modal.errors[""] ?? "");
  const send = async (event) => {
    event.preventDefault();
    submit.disabled = true;
    submit.classList.add("busy");
    const acknowledged = await act({ do: "submit", modal: modal.id, values: filled(dialog) });
    submit.disabled = false;
    submit.classList.remove("busy");
    note.textContent = acknowledged ? "" : "We had some trouble connecting. Try again?";
  };
  const submit = make("button", { type: "submit", className: "button primary" }, modal.submit?.text ?? "Submit");
  const form = make(
    "form",
    { onsubmit: send, novalidate: "" },
    make("header", {}, make("h2", { id: "modal-title" }, plain(modal.title.text, modal.title)),
      make("button", { type: "button", className: "cross", "aria-label": "Close", onclick: close }, "✕")),
    make("div", { className: "fill" }, modal.blocks.map((block) => draw(block, context))),
    make("footer", {}, note,
      make("button", { type: "button", className: "button", onclick: close }, modal.close?.text ?? "Cancel"),
      modal.submit && submit),
  );
  const dialog = make("dialog", { className: "modal", "aria-labelledby": "modal-title" }, form);
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    close();
  });
  return dialog;
}
