// Tool calls: a quiet row that opens, or the card of an approval that waits.

import { filled, h, icon, visibly } from "./dom.js";
import { readable } from "./entries.js";

/** The row of a call. */
export class CallRow {
  /** @param {{texts: object, agent: function(string): string}} host */
  constructor(call, host) {
    const { texts } = host;
    Object.assign(this, { host, texts });
    this.name = h("span", { class: "call-name", dir: "auto" });
    this.state = h("span", { class: "call-state" });
    this.input = h("pre", { dir: "auto", tabindex: "0" });
    this.output = h("pre", { dir: "auto", tabindex: "0" });
    this.inputs = h("div", {}, h("h4", {}, texts.arguments), this.input);
    this.outputs = h("div", {}, h("h4", {}, texts.result), this.output);
    this.hidden = h("p", { class: "quiet" }, texts.hidden);
    const summary = h("summary", {}, icon("on"), this.name, this.state);
    this.node = h("details", { class: "call", part: "tool" }, summary, this.inputs, this.outputs, this.hidden);
    this.node.addEventListener("toggle", () => this.update());
    this.update(call);
  }

  update(call = this.call) {
    this.call = call;
    this.node.dataset.state = call.state;
    put(this.name, named(call, this.host));
    this.state.textContent = this.texts[`call_${call.state}`];
    if (!this.node.open) return; // what nobody looks at is not written
    this.inputs.hidden = call.hidden;
    this.outputs.hidden = call.hidden || call.result === null;
    this.hidden.hidden = !call.hidden;
    put(this.input, indented(call.arguments ?? ""));
    put(this.output, call.result === null ? "" : call.result);
  }
}

function put(node, text) {
  if (node.firstChild?.data === text) return;
  node.replaceChildren(document.createTextNode(text));
}

/** What a row says of its call: that another agent is asked, or the tool's name. */
function named({ name, arguments: given }, { texts, agent }) {
  const text = { delegate: texts.asks, hand_over: texts.hands_over }[name];
  const asked = text && parsed(given)?.agent;
  return typeof asked === "string" ? filled(text, { agent: agent(asked) }) : name.replaceAll("_", " ");
}

function parsed(values) {
  try {
    return typeof values === "string" ? JSON.parse(values) : values;
  } catch {
    return null; // half a JSON text, or none
  }
}

/** Arguments that came as text, while they streamed, are shown like those that did not. */
function indented(values) {
  return readable(parsed(values) ?? values);
}

/** The card of an approval. Its state is the server's: it goes when the server says that it was answered. */
export class Card {
  /**
   * @param {object} approval As the server shows it to this person.
   * @param {{texts: object, agent: function(string): string}} host
   * @param {function(object): Promise} answer Sends ``{approve, reason, digest}``.
   */
  constructor(approval, host, answer) {
    const { texts } = host;
    Object.assign(this, { approval, texts, answer });
    const heading = h("h3", { id: `approval-${approval.id}` }, approval.mine ? texts.approval_mine : texts.approval);
    const name = h("p", { class: "card-name" }, icon("tool"), h("bdi", {}, ...visibly(approval.name)));
    this.node = h("section", { class: "card", part: "approval", tabindex: "-1", "aria-labelledby": heading.id }, heading, name);
    if (approval.chain?.length) {
      const asks = filled(texts.asked_by, { agent: host.agent(approval.agent) });
      this.node.append(h("p", { class: "card-agent quiet", dir: "auto" }, asks));
    }
    if (!approval.hidden) this.node.append(listed(approval.arguments, texts));
    if (approval.expires_at_ms) this.node.append(h("p", { class: "quiet" }, until(approval.expires_at_ms, texts)));
    this.node.append(approval.mine ? this.#answers() : h("p", { class: "card-waits" }, texts.approval_staff));
  }

  #answers() {
    const { texts } = this;
    const give = (approve) => () => this.#give({ approve, ...(approve ? {} : { reason: this.reason.value.trim() }) });
    this.reason = h("textarea", { rows: "2", dir: "auto", maxlength: "10000", id: `reason-${this.approval.id}` });
    this.approve = h("button", { type: "button", class: "primary", part: "approve", onclick: give(true) }, texts.approve);
    this.reject = h("button", { type: "button", part: "reject", onclick: () => this.#ask(true) }, texts.reject);
    this.first = h("div", { class: "card-buttons" }, this.approve, this.reject);
    const now = h("button", { type: "button", class: "danger", onclick: give(false) }, texts.reject_now);
    const back = h("button", { type: "button", onclick: () => this.#ask(false) }, texts.back);
    this.second = h(
      "div", { class: "card-reason", hidden: true },
      h("label", { for: this.reason.id }, texts.reason), this.reason, h("div", { class: "card-buttons" }, now, back),
    );
    this.said = h("p", { class: "card-said", role: "alert" });
    return h("div", {}, this.first, this.second, this.said);
  }

  #ask(reason) {
    this.first.hidden = reason;
    this.second.hidden = !reason;
    (reason ? this.reason : this.reject).focus();
  }

  async #give(decision) {
    this.node.focus({ preventScroll: true }); // a button that is disabled loses it
    this.#busy(true);
    this.said.textContent = this.texts.answering;
    try {
      await this.answer({ ...decision, digest: this.approval.digest });
    } catch (error) {
      this.#busy(false);
      const late = error.code === "resume_invalid";
      this.said.textContent = late ? this.texts.answered : this.texts[`error_${error.code}`] ?? error.message;
    }
  }

  #busy(busy) {
    for (const each of this.node.querySelectorAll("button, textarea")) each.disabled = busy;
  }
}

/** Every argument, whole, with nothing in it unseen. */
function listed(values, texts) {
  const list = h("dl", { class: "card-arguments" });
  const pairs = values && typeof values === "object" ? Object.entries(values) : [["", values]];
  for (const [name, value] of pairs) {
    list.append(h("dt", { dir: "auto" }, ...visibly(name)), h("dd", { dir: "auto" }, ...visibly(readable(value) ?? "")));
  }
  return pairs.length ? list : h("p", { class: "quiet" }, texts.nothing);
}

function until(milliseconds, texts) {
  const moment = new Intl.DateTimeFormat(document.documentElement.lang || undefined, { dateStyle: "medium", timeStyle: "short" });
  return filled(texts.approval_until, { time: moment.format(milliseconds) });
}
