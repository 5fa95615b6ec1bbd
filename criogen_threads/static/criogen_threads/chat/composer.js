// Where a person writes.

import { h, icon } from "./dom.js";

export class Composer {
  /**
   * @param {object} texts
   * @param {{send: function(string): void, stop: function(): void, leave: function(): void}} does
   * @param {string} key Under which an unsent text survives a reload of the page, in this tab.
   */
  constructor(texts, does, key) {
    Object.assign(this, { texts, does, key });
    this.busy = false;
    this.input = h("textarea", {
      rows: "1", dir: "auto", placeholder: texts.placeholder, "aria-label": texts.message, part: "input", enterkeyhint: "send",
      oninput: () => this.#changed(), onkeydown: (event) => this.#key(event),
    });
    this.mirror = h("div", { class: "mirror", dir: "auto", "aria-hidden": "true" }); // it has the height that the input takes
    this.button = h("button", { type: "submit", class: "send", part: "send" });
    this.editing = h(
      "p", { class: "editing", hidden: true }, h("span", {}, texts.editing),
      h("button", { type: "button", class: "link", onclick: () => does.leave() }, texts.cancel_editing),
    );
    const field = h("div", { class: "field" }, this.mirror, this.input);
    const row = h("div", { class: "row", part: "field" }, field, this.button);
    this.node = h("form", { class: "composer", part: "composer", onsubmit: (event) => this.#submit(event) }, this.editing, row);
    this.text = recall(key);
    this.show({ running: false, waits: false });
  }

  get text() {
    return this.input.value;
  }

  set text(text) {
    this.input.value = text;
    this.#changed();
  }

  /** Begin or leave the editing of an earlier message. */
  edit(text) {
    this.editing.hidden = text === null;
    if (text !== null) this.draft = this.text;
    this.text = text ?? this.draft ?? "";
    this.input.focus();
  }

  /** What the button does now: send, or stop what is running. */
  show({ running, waits, placeholder = this.texts.placeholder }) {
    this.running = running;
    this.input.placeholder = placeholder;
    const [name, label] = running ? ["stop", this.texts.stop] : ["send", this.texts.send];
    this.button.setAttribute("aria-label", label);
    this.button.title = label;
    this.button.classList.toggle("stop", running);
    if (this.icon !== name) this.button.replaceChildren(icon(name));
    this.icon = name;
    this.waits = waits;
    this.#changed();
  }

  #changed() {
    this.mirror.textContent = `${this.text}\u200b`;
    this.button.disabled = !this.running && (this.waits || !this.text.trim());
    if (this.editing.hidden) remember(this.key, this.text);
  }

  /** Enter sends; with Shift it is a new line, and while an input method composes it is the method's. */
  #key(event) {
    if (event.key === "Escape" && !this.editing.hidden) {
      event.stopPropagation();
      this.does.leave();
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (!this.running) this.#send();
  }

  #submit(event) {
    event.preventDefault();
    if (this.running) this.does.stop();
    else this.#send();
  }

  #send() {
    const text = this.text;
    if (!text.trim() || this.waits) return;
    this.text = "";
    this.input.focus(); // the button that had the focus may be disabled now
    this.does.send(text);
  }
}

function recall(key) {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return ""; // the browser keeps nothing for this page
  }
}

function remember(key, text) {
  try {
    if (text) sessionStorage.setItem(key, text);
    else sessionStorage.removeItem(key);
  } catch {
    // the browser keeps nothing for this page
  }
}
