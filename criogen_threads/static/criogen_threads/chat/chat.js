// <criogen-chat>: a conversation on a page. ``{% criogen_chat %}`` places it; ``Chat`` is the same without the element.

import { Chat, configuration, newId } from "./client.js";
import { Composer } from "./composer.js";
import { filled, h, icon, iconButton } from "./dom.js";
import { ChatError } from "./http.js";
import { List } from "./list.js";
import { reason } from "./message.js";

export { Chat, ChatError, configuration };

const SPOKEN = 2_000; // characters of an answer that a screen reader is given at once

/**
 * The element. Its configuration is JSON in the page, named by the attribute ``config``; ``theme`` is "light" or
 * "dark", else the system's. ``chat`` is its client. CSS variables and parts are listed in chat.css.
 */
export class CriogenChat extends HTMLElement {
  connectedCallback() {
    if (!this.chat) this.#build(configuration(this.getAttribute("config")));
    this.looking = new AbortController();
    document.addEventListener("visibilitychange", () => this.#look(), { signal: this.looking.signal });
    this.chat.connect();
  }

  disconnectedCallback() {
    this.looking.abort();
    this.chat.close();
  }

  #build(config) {
    this.config = config;
    this.texts = config.texts;
    this.chat = new Chat(config);
    this.editing = null;
    this.composer = new Composer(this.texts, {
      send: (text) => this.#send(text),
      stop: () => this.#try(() => this.chat.cancel()),
      leave: () => this.#edit(null),
    }, `criogen-chat:${config.thread}`);
    this.list = new List(this.chat, this.#host());
    this.root = this.attachShadow({ mode: "open" });
    this.#lay();
    this.chat.addEventListener("change", ({ detail }) => this.#change(detail));
  }

  /** Show a change. Where it takes a button away that has the focus, the conversation gets it. */
  #change(detail) {
    const focused = this.root.activeElement;
    CHANGES[detail.what]?.(this, detail);
    if (focused && !(focused.isConnected && focused.checkVisibility())) this.list.node.focus({ preventScroll: true });
  }

  /** What messages need of the chat around them. */
  #host() {
    const { chat } = this;
    return {
      texts: this.texts,
      name: (entry) => this.#name(entry),
      agent: (name) => this.#called(name),
      unread: (count) => this.#unread(count),
      does: {
        edit: (entry) => this.#edit(entry),
        regenerate: (entry) => this.#try(() => chat.regenerate(entry)),
        choose: (entry, step) => this.#try(() => chat.choose(entry, step)),
        retry: () => this.#try(() => chat.resume()),
        resend: (entry) => this.#try(() => chat.submit(entry.text, { clientId: entry.id })),
        discard: (entry) => chat.transcript.dropLocal(entry),
        answer: (approval, answer) => this.#answer(approval, answer),
      },
    };
  }

  #lay() {
    const { config, texts } = this;
    this.status = h("p", { class: "status", part: "status", role: "status" });
    this.alert = h("p", { class: "alert", part: "alert", role: "alert" });
    this.spoken = h("div", { class: "visually-hidden", role: "status" });
    this.welcome = h("div", { class: "welcome", part: "welcome", hidden: true }, ...this.#greeting());
    this.list.inner.prepend(this.welcome);
    const middle = h("div", { class: "middle" }, this.list.node, this.list.jump);
    const heading = h("h2", { class: "title", part: "title", id: "title", dir: "auto" }, config.title);
    this.header = h("header", { class: "header", part: "header" }, heading);
    this.panel = h("section", { class: "panel", part: "panel", "aria-labelledby": "title" });
    this.panel.append(this.header, middle, this.status, this.alert, this.composer.node, this.spoken);
    const sheet = h("link", { rel: "stylesheet", href: config.stylesheet });
    const ready = () => this.setAttribute("ready", "");
    sheet.addEventListener("load", ready);
    sheet.addEventListener("error", ready);
    this.root.append(sheet, this.panel);
    if (config.launcher) this.#launch();
    this.composer.node.setAttribute("aria-label", texts.message);
  }

  #greeting() {
    const { config, texts } = this;
    const ask = (text) => h("li", {}, h("button", { type: "button", part: "suggestion", dir: "auto", onclick: () => this.#send(text) }, text));
    return [
      config.welcome && h("p", { class: "welcome-text", dir: "auto" }, config.welcome),
      config.suggestions.length > 0 && h("ul", { "aria-label": texts.suggestions }, ...config.suggestions.map(ask)),
    ].filter(Boolean);
  }

  // The launcher ----------------------------------------------------------------------------------------------------

  #launch() {
    const { texts } = this;
    this.badge = h("span", { class: "badge", hidden: true });
    this.button = h("button", { type: "button", class: "launcher", part: "launcher", "aria-expanded": "false", "aria-label": texts.open, title: texts.open, onclick: () => this.toggle() }, icon("chat"), this.badge);
    this.header.append(iconButton("close", texts.close, () => this.toggle(false)));
    this.panel.hidden = true;
    this.panel.addEventListener("keydown", ({ key }) => key === "Escape" && this.toggle(false));
    this.root.append(this.button);
  }

  /** Open or close the chat of a launcher. */
  toggle(open = this.panel.hidden) {
    if (!this.button) return;
    this.panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    this.toggleAttribute("open", open);
    if (open) {
      this.list.toBottom();
      this.composer.input.focus();
    } else {
      this.button.focus();
    }
  }

  // What a person does ----------------------------------------------------------------------------------------------

  #send(text) {
    const { editing } = this;
    if (editing) this.#edit(null);
    this.list.mark.remove();
    this.list.toBottom();
    this.#try(() => (editing ? this.#resend(editing, text) : this.#submit(text)));
  }

  /** Whose session is over finds the text again after signing in. */
  async #submit(text) {
    const clientId = newId();
    try {
      await this.chat.submit(text, { clientId });
    } catch (error) {
      const { transcript } = this.chat;
      if (error.code === "not_authenticated") {
        transcript.dropLocal(transcript.local.find((each) => each.id === clientId));
        this.composer.text = text;
      }
      throw error;
    }
  }

  /** An edit that is refused is there to be edited further. */
  async #resend(entry, text) {
    try {
      await this.chat.edit(entry, text);
    } catch (error) {
      this.#edit(entry);
      this.composer.text = text;
      throw error;
    }
  }

  #edit(entry) {
    this.editing = entry;
    this.composer.edit(entry ? entry.text : null);
  }

  async #try(work) {
    this.alert.textContent = "";
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ChatError)) throw error;
      if (error.code === "not_authenticated") return; // the status line says it
      const behind = error.code === "permission_denied" && error.details.tools;
      this.alert.textContent = this.texts[behind ? "error_behind" : `error_${error.code}`] ?? error.message;
    }
  }

  // What is shown ---------------------------------------------------------------------------------------------------

  structure() {
    this.list.sync();
    const empty = this.chat.connection !== "connecting" && !this.chat.transcript.shown.some((each) => each.visible);
    this.welcome.hidden = !empty;
  }

  state() {
    const { transcript } = this.chat;
    const { state, pending } = transcript;
    this.composer.show({
      running: state === "running" || state === "suspended",
      waits: state === "interrupted",
      placeholder: state === "suspended" ? this.texts.suspended : this.texts.placeholder,
    });
    this.list.update();
    this.structure();
    this.connection();
    if (state === "suspended" && this.before !== state && pending.some((each) => each.mine)) this.#say(this.texts.approval_mine);
    if (state === "running" && this.before !== state) this.#say(this.texts.writing);
    if (transcript.failure && this.before === "running") this.#say(reason(transcript.failure, this.texts));
    this.before = state;
  }

  /** One discreet line on what is out of the ordinary. */
  connection() {
    const { chat, texts } = this;
    const { state, pending } = chat.transcript;
    const over = chat.trouble === "not_authenticated";
    const lines = { lost: texts.lost, polling: texts.polling, ended: over ? texts.ended : texts.refused };
    const waits = state === "suspended" && !pending.length ? texts.approval_hidden : "";
    const line = lines[chat.connection] ?? waits;
    if (this.line === line) return;
    this.line = line;
    this.status.replaceChildren(line);
    if (chat.connection === "ended" && over) {
      const login = new URL(this.config.login, location);
      login.searchParams.set("next", location.pathname + location.search);
      this.status.append(" ", h("a", { href: login.href }, texts.sign_in));
    }
  }

  said(entry) {
    if (entry.role !== "assistant" || !entry.text) return;
    this.#say(`${this.#name(entry).name}: ${entry.text.slice(0, SPOKEN)}`);
    if (!this.#looks()) this.list.missed(entry);
  }

  #looks() {
    return !document.hidden && !this.panel.hidden && this.list.sticks;
  }

  #look() {
    if (this.#looks()) this.list.seen();
  }

  /** Screen readers hear each message once, when it is complete. */
  #say(text) {
    this.spoken.replaceChildren(h("p", { dir: "auto" }, text));
  }

  /** Who speaks; ``own`` where that goes without saying. */
  #name(entry) {
    if (entry.role === "user") return { name: this.texts.you, own: true };
    const agent = entry.agent || this.config.agent;
    return { name: this.#called(agent), own: agent === this.config.agent };
  }

  /** Answer an approval. That of an asked agent is decided in its own conversation, which this page does not hear. */
  async #answer(approval, answer) {
    await this.chat.answer({ [approval.id]: answer });
    if (approval.within) this.chat.transcript.decided(approval.id, approval.toolCallId, answer.approve);
  }

  #called(agent) {
    return Object.hasOwn(this.config.agents, agent) ? this.config.agents[agent] : agent;
  }

  #unread(count) {
    if (this.badge) {
      this.badge.hidden = !count;
      this.badge.textContent = count > 9 ? "9+" : String(count);
      this.button.setAttribute("aria-label", count ? `${this.texts.open}. ${filled(this.texts.unread, { count })}` : this.texts.open);
    }
    this.dispatchEvent(new CustomEvent("criogen:unread", { detail: { count }, bubbles: true, composed: true }));
  }
}

const CHANGES = {
  structure: (element) => element.structure(),
  state: (element) => element.state(),
  connection: (element) => element.state(),
  grow: (element, detail) => element.list.grow(detail),
  entry: (element, { entry }) => element.list.change(entry),
  said: (element, { entry }) => element.said(entry),
};

if (!customElements.get("criogen-chat")) customElements.define("criogen-chat", CriogenChat);
