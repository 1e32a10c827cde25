// Draws blocks. `press(block, element, option)` is called for what a person presses; it resolves to whether the app
// acknowledged it.
import { fresh, make, place } from "./dom.js";
import { piece, plain, text } from "./text.js";

const LONG = 700; // characters after which Slack folds a section that does not say expand

export function draw(block, context) {
  const drawer = { section, header, divider, context: small, actions, rich_text: rich, input }[block.type];
  return drawer ? drawer(block, context) : make("p", { className: "unknown" }, `[${block.type}]`);
}

function header(block) {
  return make("h3", { className: "block header" }, plain(block.text.text, block.text));
}

function divider() {
  return make("hr", { className: "block" });
}

function small(block, { names }) {
  const parts = block.elements.map((element) => make("span", {}, text(element, names)));
  return make("div", { className: "block small" }, parts);
}

function section(block, context) {
  const body = make("div", { className: "words" });
  if (block.text) body.append(foldable(block, context));
  if (block.fields) {
    const fields = block.fields.map((field) => make("div", {}, text(field, context.names)));
    body.append(make("div", { className: "fields" }, fields));
  }
  const accessory = block.accessory && control(block, block.accessory, context);
  return make("div", { className: "block section" }, body, accessory);
}

function foldable(block, { names }) {
  const words = make("div", { className: "text" }, text(block.text, names));
  if (block.expand || block.text.text.length <= LONG) return words;
  words.classList.add("folded");
  const unfold = () => {
    words.classList.remove("folded");
    more.remove();
  };
  const more = make("button", { className: "see-more", type: "button", onclick: unfold }, "See more");
  return make("div", {}, words, more);
}

function rich(block, { names }) {
  return make("div", { className: "block rich" }, block.elements.map((element) => richPart(element, names)));
}

function richPart(element, names) {
  const inside = () => element.elements.map((each) => piece(each, names));
  switch (element.type) {
    case "rich_text_preformatted": return make("pre", { tabindex: "0" }, inside());
    case "rich_text_quote": return make("blockquote", {}, inside());
    case "rich_text_list": {
      const items = element.elements.map((each) => make("li", {}, each.elements.map((one) => piece(one, names))));
      const list = make(element.style === "ordered" ? "ol" : "ul", {}, items);
      if (element.indent) list.classList.add(`indent-${element.indent}`);
      if (element.offset) list.start = element.offset + 1;
      return list;
    }
  }
  return make("p", {}, inside());
}

function actions(block, context) {
  return make("div", { className: "block actions" }, block.elements.map((each) => control(block, each, context)));
}

function control(block, element, context) {
  if (element.type === "button") return button(block, element, context);
  if (element.type === "overflow") return overflow(block, element, context);
  return make("span", { className: "unknown" }, `[${element.type}]`);
}

function button(block, element, context) {
  const node = make(
    "button",
    {
      type: "button",
      className: `button ${element.style ?? ""}`,
      "aria-label": element.accessibility_label,
      onclick: () => pressed(node, block, element, undefined, context),
    },
    plain(element.text.text, element.text),
  );
  return make("span", { className: "control" }, node);
}

// Asks the confirm dialog, presses, and marks what the app left unacknowledged.
async function pressed(node, block, element, option, { press }) {
  if (element.confirm && !(await confirmed(element.confirm))) return;
  const place = node.closest(".block");
  if (place.nextElementSibling?.matches(".warn")) place.nextElementSibling.remove();
  node.classList.add("busy");
  node.disabled = true;
  const acknowledged = await press(block, element, option);
  node.classList.remove("busy");
  node.disabled = false;
  if (!acknowledged) place.after(warning(option ?? element));
}

function warning({ text: { text: label } }) {
  return make("p", { className: "warn", role: "alert" }, make("span", { "aria-hidden": "true" }, "⚠"),
    ` The app did not answer to “${label}” in time. Press again.`);
}

export function confirmed({ title, text: words, confirm, deny, style }) {
  const name = fresh();
  const dialog = make(
    "dialog",
    { className: "confirm", "aria-labelledby": name },
    make("h2", { id: name }, plain(title.text, title)),
    make("div", { className: "dialog-text" }, text(words, {})),
    make(
      "div",
      { className: "dialog-buttons" },
      make("button", { type: "button", className: "button", onclick: () => dialog.close("deny") }, deny.text),
      make("button", { type: "button", className: `button ${style ?? "primary"}`, autofocus: true,
        onclick: () => dialog.close("confirm") }, confirm.text),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "confirm");
    });
  });
}

function overflow(block, element, context) {
  const name = fresh();
  const opener = make("button", {
    type: "button", className: "button dots", "aria-label": "More actions", "aria-haspopup": "menu", popovertarget: name,
  }, "⋯");
  const choose = (option) => {
    menu.hidePopover();
    pressed(opener, block, element, option, context);
  };
  const items = element.options.map((option) =>
    make("button", { type: "button", role: "menuitem", onclick: () => choose(option) }, text(option.text, {}),
      option.description && make("small", {}, option.description.text)));
  const menu = make("div", { id: name, role: "menu", className: "menu", popover: "auto" }, items);
  menu.addEventListener("toggle", (event) => {
    if (event.newState !== "open") return;
    place(menu, opener);
    items[0].focus();
  });
  menu.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
  });
  return make("span", { className: "control" }, opener, menu);
}

function input(block, context) {
  const name = fresh();
  const error = context.errors[block.block_id];
  const fill = { plain_text_input: typed, static_select: select, radio_buttons: marks, checkboxes: marks };
  const kept = context.values[block.element.action_id];
  const control = fill[block.element.type](block.element, name, kept);
  control.dataset.action = block.element.action_id;
  if (error) control.setAttribute("aria-describedby", `${name}e`);
  return make(
    "div",
    { className: `block input${error ? " wrong" : ""}` },
    make("label", { for: name }, plain(block.label.text, block.label),
      block.optional ? make("span", { className: "optional" }, " (optional)") : null),
    control,
    error && make("p", { className: "error", id: `${name}e`, role: "alert" }, error),
    block.hint && make("p", { className: "hint" }, plain(block.hint.text, block.hint)),
  );
}

function typed(element, id, kept) {
  const tag = element.multiline ? "textarea" : "input";
  const node = make(tag, { id, maxlength: String(element.max_length ?? 3000), placeholder: element.placeholder?.text });
  node.value = kept ?? element.initial_value ?? "";
  node.autofocus = Boolean(element.focus_on_load);
  node.read = () => node.value;
  return node;
}

function select(element, id, kept) {
  const empty = make("option", { value: "" }, element.placeholder?.text ?? "Select an option");
  const options = element.options.map((one) => make("option", { value: one.value }, one.text.text));
  const node = make("select", { id }, empty, options);
  node.value = kept ?? element.initial_option?.value ?? "";
  node.read = () => node.value;
  return node;
}

function marks(element, id, kept) {
  const many = element.type === "checkboxes";
  const initial = many ? (element.initial_options ?? []) : [element.initial_option].filter(Boolean);
  const on = new Set([kept ?? initial.map((one) => one.value)].flat());
  const group = fresh();
  const boxes = element.options.map((one, number) => make("input", {
    type: many ? "checkbox" : "radio", name: group, value: one.value, id: number ? undefined : id, checked: on.has(one.value),
  }));
  const rows = element.options.map((one, number) =>
    make("label", { className: "mark" }, boxes[number], make("span", {}, text(one.text, {}),
      one.description && make("small", {}, text(one.description, {})))));
  const node = make("div", { role: many ? "group" : "radiogroup" }, rows);
  node.read = () => {
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
    return many ? chosen : (chosen[0] ?? "");
  };
  return node;
}
