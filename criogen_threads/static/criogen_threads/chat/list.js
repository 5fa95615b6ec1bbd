// The messages of a conversation on the page: in order, each made once, scrolled as people expect.

import { filled, h, icon } from "./dom.js";
import { placeOf } from "./entries.js";
import { MessageView } from "./message.js";

const NEAR = 80; // pixels from the bottom that count as being there
const AHEAD = "800px"; // before the top is reached, the page before is read

export class List {
  /**
   * @param {Chat} chat
   * @param {object} host See MessageView; and ``texts``.
   */
  constructor(chat, host) {
    Object.assign(this, { chat, host });
    const { texts } = host;
    this.views = new Map(); // by an entry's key
    this.unread = 0;
    this.sticks = true; // to the bottom
    this.earlier = h("p", { class: "earlier quiet", hidden: true }, texts.earlier);
    this.items = h("ol", { class: "messages", part: "messages" });
    this.working = h("div", { class: "working", hidden: true }, h("span"), h("span"), h("span"));
    this.mark = h("li", { class: "mark" }, h("span", {}, texts.new));
    this.inner = h("div", { class: "inner" }, this.earlier, this.items, this.working);
    this.node = h("div", { class: "scroll", part: "scroll", role: "region", tabindex: "0", "aria-label": texts.conversation }, this.inner);
    this.jump = h("button", { type: "button", class: "jump", hidden: true, "aria-label": texts.latest, title: texts.latest, onclick: () => this.toBottom() }, icon("down"));
    this.node.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.stick()).observe(this.inner);
    new IntersectionObserver((seen) => seen.at(-1).isIntersecting && this.#readEarlier(), { root: this.node, rootMargin: AHEAD })
      .observe(this.earlier);
  }

  /** Bring nodes and entries in step. */
  sync() {
    const { transcript } = this.chat;
    const shown = transcript.shown.filter((each) => each.role !== "tool"); // a result is shown with its call
    const kept = new Set(shown.map((each) => each.key));
    for (const [key, view] of this.views) if (!kept.has(key)) this.#drop(key, view);
    let next = this.items.firstChild;
    for (const entry of shown) {
      const view = this.#view(entry);
      if (next === this.mark) next = next.nextSibling;
      if (view.node === next) next = next.nextSibling;
      else this.items.insertBefore(view.node, next);
    }
    this.earlier.hidden = !transcript.earlier;
    this.update();
  }

  /** Bring the entries up to date that something around them changes: buttons, cards, what is under way. */
  update() {
    const { shown, local, state } = this.chat.transcript;
    const visible = shown.filter((each) => each.visible);
    const last = visible.at(-1);
    const rests = state === "idle" || state === "failed" || state === "interrupted";
    visible.forEach((entry, index) => {
      const view = this.views.get(entry.key);
      const latest = rests && entry === last;
      const ends = entry === last ? rests : visible[index + 1].role !== entry.role || entry.role === "user";
      const waiting = this.#waiting(entry, last);
      const same = view.entry === entry && view.latest === latest && view.ends === ends;
      if (!same || waiting.length || view.cards.size || view.node.hidden) view.refresh(entry, waiting, { latest, ends });
    });
    const busy = state === "running" || local.some((each) => each.sending === "sending");
    this.working.hidden = !busy || Boolean(last?.live && last.text);
    this.stick();
  }

  /** One entry has changed. */
  change(entry) {
    const view = this.views.get(entry.key);
    view?.refresh(entry, this.#waiting(entry), view);
  }

  /** The approvals that are shown at an entry; at the last one those too whose call this person is not shown. */
  #waiting(entry, last = this.chat.transcript.shown.findLast((each) => each.visible)) {
    const { shown, pending } = this.chat.transcript;
    const isHere = (each) => entry.call(placeOf(each)) || (entry === last && !shown.some((one) => one.call(placeOf(each))));
    return pending.filter(isHere);
  }

  grow({ entry, kind, delta }) {
    this.views.get(entry.key)?.grow(kind, delta);
    this.working.hidden = true;
    this.stick();
  }

  #view(entry) {
    let view = this.views.get(entry.key);
    if (!view) {
      view = new MessageView(entry, this.host);
      this.views.set(entry.key, view);
    }
    return view;
  }

  #drop(key, view) {
    view.node.remove();
    this.views.delete(key);
  }

  // Scrolling -------------------------------------------------------------------------------------------------------

  toBottom() {
    this.sticks = true;
    this.stick();
    this.seen();
  }

  /** Stay at the bottom, for those who are there. */
  stick() {
    if (this.sticks) this.node.scrollTop = this.node.scrollHeight;
    this.jump.hidden = this.sticks;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.node;
    this.sticks = scrollHeight - scrollTop - clientHeight < NEAR;
    this.jump.hidden = this.sticks;
    if (this.sticks) this.seen();
  }

  async #readEarlier() {
    if (this.earlier.hidden || this.node.clientHeight === 0) return;
    const before = this.node.scrollHeight - this.node.scrollTop;
    this.node.classList.add("reading"); // what is looked at is held here, not by the browser
    try {
      await this.chat.earlier();
      this.node.scrollTop = this.node.scrollHeight - before;
    } catch {
      return; // the next scroll tries again
    } finally {
      this.node.classList.remove("reading");
    }
    if (this.chat.transcript.earlier && this.node.scrollTop < this.node.clientHeight) await this.#readEarlier();
  }

  // Unread ----------------------------------------------------------------------------------------------------------

  /** A message has come while nobody looked. */
  missed(entry) {
    if (!this.unread) this.items.insertBefore(this.mark, this.views.get(entry.key)?.node ?? null);
    this.unread += 1;
    this.#count();
  }

  /** Everything was seen. The mark stays where it is until something is said. */
  seen() {
    this.unread = 0;
    this.#count();
  }

  #count() {
    const { texts } = this.host;
    this.jump.dataset.unread = this.unread || "";
    this.jump.setAttribute("aria-label", this.unread ? filled(texts.unread, { count: this.unread }) : texts.latest);
    this.host.unread(this.unread);
  }
}
