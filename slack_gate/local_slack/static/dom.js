// Builds elements. Strings become text nodes, so nothing a message says is ever read as HTML.

export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name === "className" ? "class" : name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function fresh() {
  return `n${(fresh.count = (fresh.count ?? 0) + 1)}`;
}

// Puts an open menu next to what opened it, inside the window.
export function place(menu, opener) {
  const at = opener.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - menu.offsetWidth - 8));
  const below = at.bottom + 4 + menu.offsetHeight < innerHeight;
  menu.style.left = `${left}px`;
  menu.style.top = `${below ? at.bottom + 4 : at.top - menu.offsetHeight - 4}px`;
}
