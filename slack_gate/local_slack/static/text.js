// Slack's text: plain_text, mrkdwn and the pieces of rich_text, as nodes.
import { make } from "./dom.js";

const EMOJI = {
  "+1": "👍", thumbsup: "👍", "-1": "👎", thumbsdown: "👎", white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌",
  no_entry: "⛔", no_entry_sign: "🚫", warning: "⚠️", rotating_light: "🚨", hourglass: "⌛", hourglass_flowing_sand: "⏳",
  alarm_clock: "⏰", lock: "🔒", key: "🔑", shield: "🛡️", robot_face: "🤖", eyes: "👀", question: "❓", bell: "🔔",
  skull: "💀", fire: "🔥", globe_with_meridians: "🌐", smile: "😄", tada: "🎉", rocket: "🚀", file_folder: "📁",
};
const INLINE = new RegExp(
  [
    "`([^`\\n]+)`",
    "<([^<>\\n]+)>",
    "(?<![\\w*])\\*(\\S(?:[^*\\n]*\\S)?)\\*(?![\\w*])",
    "(?<![\\w])_(\\S(?:[^_\\n]*\\S)?)_(?![\\w])",
    "(?<![\\w~])~(\\S(?:[^~\\n]*\\S)?)~(?![\\w~])",
    ":([a-z0-9_+-]+):",
    "(https?://[^\\s<>]+)",
  ].join("|"),
  "g",
);

const unescaped = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

// A skin tone after the name (`+1::skin-tone-2`) is not drawn.
export function emoji(name) {
  return EMOJI[name.split("::")[0]] ?? `:${name}:`;
}

export function plain(text, { emoji: on = true } = {}) {
  return on ? text.replace(/:([a-z0-9_+-]+):/g, (_, name) => emoji(name)) : text;
}

function link(url, label, style) {
  const node = /^(https?|mailto):/.test(url)
    ? make("a", { href: url, title: url, target: "_blank", rel: "noopener noreferrer" }, label)
    : make("span", {}, label);
  return styled(node, style);
}

function mention(text) {
  return make("span", { className: "mention" }, text);
}

function special(inside, names) {
  const [target, label] = inside.split("|", 2);
  if (target.startsWith("@")) return mention(`@${label ?? names[target.slice(1)] ?? target.slice(1)}`);
  if (target.startsWith("#")) return mention(`#${label ?? target.slice(1)}`);
  if (target.startsWith("!date^")) return date(...target.split("^").slice(1), label);
  if (target.startsWith("!")) return mention(`@${label ?? target.slice(1).split("^").at(-1)}`);
  return link(unescaped(target), unescaped(label ?? target));
}

function date(seconds, format, ...rest) {
  const at = new Date(Number(seconds) * 1000);
  if (Number.isNaN(at.getTime())) return rest.at(-1) ?? "";
  const clock = (more) => at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...more });
  const day = at.toLocaleDateString([], { dateStyle: "medium" });
  return format.replace(/\{(\w+)\}/g, (_, kind) => {
    if (kind === "time") return clock();
    return kind === "time_secs" ? clock({ second: "2-digit" }) : day;
  });
}

function inline(text, names) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, angle, bold, italic, strike, name, url] = match;
    nodes.push(unescaped(text.slice(from, match.index)));
    from = match.index + whole.length;
    if (code !== undefined) nodes.push(make("code", {}, unescaped(code)));
    else if (angle !== undefined) nodes.push(special(angle, names));
    else if (bold !== undefined) nodes.push(make("strong", {}, inline(bold, names)));
    else if (italic !== undefined) nodes.push(make("em", {}, inline(italic, names)));
    else if (strike !== undefined) nodes.push(make("s", {}, inline(strike, names)));
    else if (name !== undefined) nodes.push(emoji(name));
    else nodes.push(link(unescaped(url), unescaped(url)));
  }
  nodes.push(unescaped(text.slice(from)));
  return nodes;
}

export function mrkdwn(text, names) {
  return text.split("```").flatMap((part, number, all) => {
    if (number % 2 === 1 && number < all.length - 1) return make("pre", {}, unescaped(part.replace(/^\n|\n$/g, "")));
    const rest = number % 2 === 1 ? "```" + part : part;
    return quotes(rest, names);
  });
}

function quotes(text, names) {
  const nodes = [];
  for (const piece of text.split(/((?:^(?:>|&gt;).*(?:\n|$))+)/m)) {
    if (/^(>|&gt;)/.test(piece)) {
      const inner = piece.replace(/^(>|&gt;) ?/gm, "").replace(/\n$/, "");
      nodes.push(make("blockquote", {}, inline(inner, names)));
    } else if (piece) nodes.push(...inline(piece, names));
  }
  return nodes;
}

// A text object of either kind.
export function text(object, names) {
  return object.type === "mrkdwn" ? mrkdwn(object.text, names) : [plain(object.text, object)];
}

function styled(node, style = {}) {
  let inner = node;
  for (const [name, tag] of [["code", "code"], ["bold", "strong"], ["italic", "em"], ["strike", "s"]]) {
    if (style[name]) inner = make(tag, {}, inner);
  }
  return inner;
}

// One piece of a rich_text section: literal, nothing in it is parsed.
export function piece(element, names) {
  switch (element.type) {
    case "text": return styled(element.text, element.style);
    case "link": return link(element.url, element.text ?? element.url, element.style);
    case "emoji": return emoji(element.name);
    case "user": return mention(`@${names[element.user_id] ?? element.user_id}`);
    case "channel": return mention(`#${element.channel_id}`);
    case "usergroup": return mention(`@${element.usergroup_id}`);
    case "broadcast": return mention(`@${element.range}`);
    case "date": return date(element.timestamp, element.format, element.fallback);
  }
  return "";
}
