// Keeps the page at the state of the gate. Cards that stay are not touched: neither focus nor a half-typed reason is lost.
"use strict";

const list = document.getElementById("pending");
const trouble = document.getElementById("trouble");
let reading = false;
let again = false;

function say(element, text) {
  element.textContent = text;
  element.hidden = !text;
}

// Until the buttons have stood still for a moment, they take no click (page.css).
function settle() {
  list.classList.toggle("moved");
}

function take(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const cards = Array.from(fresh.querySelectorAll("#pending > article"));
  const open = new Set(cards.map((card) => card.id));
  for (const card of Array.from(list.children)) {
    if (!open.has(card.id)) leave(card);
  }
  for (const card of cards.map((card) => ready(document.adoptNode(card)))) {
    const shown = document.getElementById(card.id);
    if (!shown) list.append(card);
    else if (token(shown) !== token(card)) draw(card, shown);
    else keep(card, shown);
  }
  const count = fresh.getElementById("count").textContent;
  const shown = document.getElementById("count");
  if (shown.textContent !== count) shown.textContent = count;
  document.getElementById("cord").replaceWith(document.adoptNode(fresh.getElementById("cord")));
  const past = document.getElementById("past");
  const now = ready(document.adoptNode(fresh.getElementById("past")));
  if (past.innerHTML !== now.innerHTML) past.replaceWith(now);
  document.title = fresh.title;
  document.body.dataset.version = fresh.body.dataset.version;
}

const token = (card) => card.querySelector("[name=token]").value;

// It stays as it is, with what is new: nothing there takes the focus.
function keep(card, shown) {
  shown.querySelector(".facts").replaceWith(card.querySelector(".facts"));
  shown.querySelector("[name=until]").value = card.querySelector("[name=until]").value;
}

// What it would change is not what was shown any more: to be read again, with the reason that was typed meanwhile.
function draw(card, shown) {
  card.querySelector("textarea").value = shown.querySelector("textarea").value;
  const inside = shown.contains(document.activeElement);
  shown.replaceWith(card);
  settle();
  say(card.querySelector(".said"), "The file has changed since this was drawn: look at it again.");
  if (inside) card.querySelector("h2").focus();
}

// Its request has ended. Where somebody is in it, it goes once they have left it.
function leave(card) {
  if (!card.contains(document.activeElement)) {
    card.remove();
    settle();
    return;
  }
  card.querySelector("h2").focus(); // a button that can no longer be pressed would lose the focus, and the card with it
  for (const button of card.querySelectorAll("button")) button.disabled = true;
  const said = card.querySelector(".said");
  if (said.hidden) say(said, "This has ended; see below who decided."); // else it was told more exactly
  card.addEventListener("focusout", () => setTimeout(() => leave(card)), { once: true });
}

async function refresh() {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  do {
    again = false;
    try {
      const answer = await fetch("/", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      take(await answer.text());
      say(trouble, "");
    } catch {
      say(trouble, "This page is not up to date: slack-gate does not answer. Reload it.");
    }
  } while (again);
  reading = false;
}

async function decide(event) {
  event.preventDefault();
  const form = event.target;
  const card = form.closest("article");
  const said = card.querySelector(".said");
  if (form.dataset.sent) return;
  form.dataset.sent = "yes";
  const fields = new URLSearchParams(new FormData(form, event.submitter));
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields });
    const html = await answer.text();
    if (answer.ok) {
      say(said, "");
      if (!html.includes(`id="${card.id}"`)) {
        const next = card.nextElementSibling || card.previousElementSibling;
        card.remove();
        settle();
        (next || document.getElementById("history")).querySelector("h2").focus();
      } else settle(); // the second press of a double click was meant for what was shown before
      take(html);
      delete form.dataset.sent;
    } else {
      const sentence = new DOMParser().parseFromString(html, "text/html").getElementById("sentence");
      say(said, sentence ? sentence.textContent : `Not taken: ${answer.statusText}`);
      delete form.dataset.sent;
      if (answer.status === 409) card.querySelector("h2").focus(); // it stays until this has been read
      refresh();
    }
  } catch {
    delete form.dataset.sent;
    say(said, "It could not be sent. Press again.");
  }
}

function left(element) {
  const seconds = Math.max(0, Math.round(Number(element.dataset.until) - Date.now() / 1000));
  const minutes = Math.floor(seconds / 60);
  element.textContent = `(in ${minutes ? `${minutes} min ` : ""}${seconds % 60} s)`;
}

// In the reader's own zone, with the day where it is another one.
function local(at) {
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString() : at.toLocaleString();
}

function ready(root) {
  for (const time of root.querySelectorAll("time")) time.textContent = local(new Date(time.dateTime));
  root.querySelectorAll(".left").forEach(left);
  return root;
}

list.addEventListener("submit", decide);
window.addEventListener("focus", settle);
document.addEventListener("visibilitychange", settle);
const sizes = new ResizeObserver(settle); // whatever makes room or takes it moves what is below
for (const part of [document.querySelector("header"), list]) sizes.observe(part);
setInterval(() => document.querySelectorAll(".left").forEach(left), 1000);
ready(document);

const events = new EventSource("/events");
events.onmessage = (event) => {
  if (event.data !== document.body.dataset.version) refresh();
};
events.onopen = () => say(trouble, "");
events.onerror = () => say(trouble, "Not connected to slack-gate: what is shown may be old. Reload the page.");
