// One message on the page.

import { attachment } from "./attachments.js";
import { Card, CallRow } from "./calls.js";
import { filled, h, icon, iconButton, sanitised } from "./dom.js";
import { placeOf } from "./entries.js";
import { Streamed } from "./streamed.js";

const COPIED = 2_000; // milliseconds that the tick stays

export class MessageView {
  /**
   * @param {Entry} entry
   * @param {{texts: object, name: function(Entry): string, agent: function(string): string, does: object}} host
   *   ``agent`` is how one is called; ``does`` are the things that a button of a message can do: edit, regenerate,
   *   choose, retry, resend, discard, answer.
   */
  constructor(entry, host) {
    this.entry = entry;
    this.host = host;
    this.who = h("h3", { class: "who", dir: "auto" });
    this.body = h("div", { class: "body", part: "text" });
    this.files = h("div", { class: "files" });
    this.thoughts = h("details", { class: "call thoughts", hidden: true });
    this.calls = h("div", { class: "calls" });
    this.foot = h("div", { class: "foot" });
    this.note = h("div", { class: "note" });
    this.node = h("li", { hidden: true, class: `message ${entry.role}`, part: `message ${entry.role}` });
    this.node.append(this.who, this.thoughts, this.body, this.calls, this.foot, this.note);
    this.thoughts.addEventListener("toggle", () => this.#thoughts());
    this.rows = new Map();
    this.cards = new Map();
    this.streamed = null;
    this.shown = undefined; // what the body shows
  }

  /** Bring everything up to date but the growing text; ``pending`` are the approvals that are shown here. */
  refresh(entry, pending, { latest = false, ends = false } = {}) {
    Object.assign(this, { entry, latest, ends });
    const { name, own } = this.host.name(entry);
    this.who.textContent = name;
    this.who.classList.toggle("visually-hidden", own);
    this.node.hidden = !entry.visible;
    this.node.dataset.sending = entry.sending;
    this.#thoughts();
    this.#text();
    this.#calls(pending);
    this.#note();
    this.#foot();
  }

  /** More of a text under way. */
  grow(kind, delta) {
    const { entry } = this;
    if (kind === "text") {
      if (!this.streamed || this.shown !== this.streamed) return this.#text();
      this.streamed.add(delta);
      this.node.hidden = false;
    } else if (kind === "block" && this.streamed) {
      const { html, offset, end } = entry.blocks.at(-1);
      this.streamed.replace(end - offset, html);
    } else if (kind === "call") {
      this.node.hidden = false;
      const call = entry.calls.at(-1);
      this.rows.get(call.id)?.update(call);
    }
  }

  // Parts -----------------------------------------------------------------------------------------------------------

  #text() {
    const { entry } = this;
    if (entry.live) this.#live();
    else this.#whole(entry.html ?? entry.text);
    this.#attach();
  }

  #thoughts() {
    const { entry, thoughts } = this;
    thoughts.hidden = !entry.reasoning;
    if (!entry.reasoning) return;
    if (!thoughts.firstChild) {
      const summary = h("summary", {}, icon("on"), h("span", { class: "call-name" }, this.host.texts.reasoning));
      thoughts.append(summary, h("div", { class: "thought", dir: "auto" }));
    }
    if (thoughts.open) thoughts.lastChild.textContent = entry.reasoning; // what nobody looks at is not written
  }

  /** Begin a text under way anew, from all that is there. */
  #live() {
    const { entry } = this;
    const { streamed } = this;
    const same = this.shown && this.shown === streamed && streamed.length === entry.text.length;
    if (same && streamed.replaced === entry.blocks.length) return;
    this.streamed = this.shown = new Streamed();
    this.streamed.add(entry.text);
    for (const { html, offset, end } of entry.blocks) this.streamed.replace(end - offset, html);
    this.body.replaceChildren(this.streamed.node);
  }

  #whole(content) {
    if (this.shown === content) return;
    const { entry } = this;
    const stays = entry.html === null && this.streamed && !this.streamed.rendered.hasChildNodes();
    this.shown = content;
    if (stays) return; // it was plain, and is
    this.streamed = null;
    if (entry.html !== null) {
      this.body.replaceChildren(h("div", { class: "markdown" }));
      this.body.firstChild.append(sanitised(entry.html));
    } else {
      const plain = new Streamed();
      plain.add(entry.text);
      this.body.replaceChildren(plain.node);
    }
  }

  /** Images and files stand behind the text. */
  #attach() {
    const { attachments } = this.entry;
    if (this.attached !== attachments) {
      this.attached = attachments;
      this.files.replaceChildren(...attachments.map((each) => attachment(each, this.host.texts)));
    }
    if (attachments.length && this.body.lastChild !== this.files) this.body.append(this.files);
  }

  /** A card stands in the place of its call, or behind the call that asked the agent that waits. */
  #calls(pending) {
    const { entry } = this;
    const waiting = new Set(pending.map((each) => each.id));
    for (const id of this.cards.keys()) if (!waiting.has(id)) this.cards.delete(id);
    const nodes = entry.calls.flatMap((call) => {
      const own = pending.find((each) => each.toolCallId === call.id);
      if (own) return [this.#card(own)];
      const within = pending.filter((each) => placeOf(each) === call.id);
      return [this.#row(call), ...within.map((each) => this.#card(each))];
    });
    const elsewhere = pending.filter((each) => !entry.call(placeOf(each)));
    replace(this.calls, [...nodes, ...elsewhere.map((each) => this.#card(each))]);
  }

  #row(call) {
    const row = this.rows.get(call.id) ?? new CallRow(call, this.host);
    this.rows.set(call.id, row);
    row.update(call);
    return row.node;
  }

  #card(approval) {
    const known = this.cards.get(approval.id);
    if (known?.approval.mine === approval.mine) return known.node;
    const made = new Card(approval, this.host, (answer) => this.host.does.answer(approval, answer));
    this.cards.set(approval.id, made);
    return made.node;
  }

  #note() {
    const { entry, host, latest } = this;
    const { texts, does } = host;
    const key = JSON.stringify([entry.sending, entry.note, latest]);
    if (this.noted === key) return;
    this.noted = key; // it is said once
    const nodes = [];
    if (entry.sending === "failed") {
      nodes.push(
        h("p", { role: "alert" }, texts.not_sent),
        h("button", { type: "button", class: "link", onclick: () => does.resend(entry) }, texts.try_again),
        h("button", { type: "button", class: "link", onclick: () => does.discard(entry) }, texts.discard),
      );
    } else if (entry.note) {
      const { partial, code } = entry.note;
      if (partial) nodes.push(h("div", { class: "partial", dir: "auto" }, partial));
      nodes.push(h("p", {}, reason(entry.note, texts)));
      const label = code === "thread_interrupted" ? texts.go_on : texts.retry;
      if (latest) nodes.push(h("button", { type: "button", class: "link", onclick: () => does.retry() }, icon("again"), label));
    }
    this.note.dataset.of = entry.sending ? "message" : "run";
    this.note.replaceChildren(...nodes);
  }

  /** Buttons stand where a turn ends; versions at the message that has some. */
  #foot() {
    const { entry, host, latest, ends } = this;
    const { texts, does } = host;
    const key = JSON.stringify([entry.live, entry.sending, entry.branch, latest, ends, Boolean(entry.note)]);
    if (this.footed === key) return;
    this.footed = key;
    const nodes = [];
    const settled = !entry.live && !entry.sending;
    if (settled && entry.branch.count > 1) nodes.push(this.#versions());
    if (!settled || !ends) return void this.foot.replaceChildren(...nodes);
    if (entry.text) nodes.push(iconButton("copy", texts.copy, (event) => this.#copy(event.currentTarget)));
    if (entry.role === "user") nodes.push(iconButton("edit", texts.edit, () => does.edit(entry)));
    if (latest && !entry.note) {
      const again = () => (entry.role === "user" ? does.retry() : does.regenerate(entry)); // unanswered, or anew
      nodes.push(iconButton("again", texts.regenerate, again));
    }
    this.foot.replaceChildren(...nodes);
  }

  #versions() {
    const { texts, does } = this.host;
    const { index, count } = this.entry.branch;
    const go = (step) => () => does.choose(this.entry, step);
    const label = filled(texts.version, { index: index + 1, count });
    return h(
      "span", { class: "versions", role: "group", "aria-label": label },
      iconButton("back", texts.previous, go(-1), { disabled: index === 0 }),
      h("span", { "aria-hidden": "true" }, `${index + 1}/${count}`),
      iconButton("on", texts.next, go(1), { disabled: index === count - 1 }),
    );
  }

  async #copy(button) {
    const { texts } = this.host;
    try {
      await navigator.clipboard.writeText(this.entry.text);
    } catch {
      return; // the page was not given the clipboard
    }
    button.replaceChildren(icon("check"));
    button.setAttribute("aria-label", texts.copied);
    setTimeout(() => {
      button.replaceChildren(icon("copy"));
      button.setAttribute("aria-label", texts.copy);
    }, COPIED);
  }
}

/** Replace children only where they are others: what has the focus, or is open, stays as it is. */
function replace(parent, nodes) {
  const same = nodes.length === parent.childNodes.length && nodes.every((each, at) => each === parent.childNodes[at]);
  if (!same) parent.replaceChildren(...nodes);
}

/** How a run ended, for a person. */
export function reason({ code, message }, texts) {
  if (code === "cancelled") return texts.stopped;
  if (code === "thread_interrupted") return texts.interrupted;
  return texts[`error_${code}`] ?? (message || texts.failed);
}
