// The Home tab: blocks as the app published them; what did not change stays, and so do focus and open menus.
import { draw } from "./blocks.js";
import { make } from "./dom.js";
import { sync } from "./messages.js";

let drawn = new Map(); // JSON of a block → its nodes, those of equal blocks in order
let hash = null;

export function showHome(panel, { state, names, act }) {
  if (!state.home) {
    panel.replaceChildren(make("p", { className: "empty" }, `${state.app} has not drawn its Home tab yet.`));
    return;
  }
  if (state.home.hash === hash) return;
  hash = state.home.hash;
  const before = drawn;
  drawn = new Map();
  // A block that stays is pressed in the newest drawing, which shows the very same.
  const press = (block, element, option) => act({
    do: "press-home", hash, block_id: block.block_id, action_id: element.action_id, option: option?.value,
  });
  const nodes = state.home.blocks.map((block) => {
    const text = JSON.stringify(block);
    const node = before.get(text)?.shift() ?? draw(block, { names, press, errors: {}, values: {} });
    drawn.set(text, [...(drawn.get(text) ?? []), node]);
    return node;
  });
  let list = panel.querySelector(".view");
  if (!list) panel.replaceChildren((list = make("div", { className: "view" })));
  sync(list, nodes);
}
