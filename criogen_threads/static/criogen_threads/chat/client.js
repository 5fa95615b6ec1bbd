// The JavaScript client of a conversation: everything that the element does, without the element.

import { Connection, PAGE } from "./connection.js";
import { follow, replyAtTheEnd } from "./following.js";
import { segment } from "./http.js";

/**
 * A conversation.
 *
 * ``send``, ``stream``, ``approve``, ``reject``, ``decide`` and ``retry`` see a turn through to where it rests; the
 * signal of ``{signal}`` cancels the run, which is saved nevertheless. Whatever the server refuses is a ``ChatError``
 * with the ``code`` of the Python API.
 *
 * Events: "change" (``detail.what``: see Transcript, and "connection"), as ``CustomEvent``.
 */
export class Chat extends Connection {
  /** @param {object} config What ``{% criogen_chat %}`` writes: see ``configuration``. */
  constructor(config) {
    super(config);
    this.addEventListener("change", ({ detail: { what, entry } }) => {
      if (what === "said" && entry.forked) this.#count(entry).catch(() => {});
    });
  }

  // Turns -----------------------------------------------------------------------------------------------------------

  /**
   * Say something, and wait until the turn rests.
   *
   * @param {string} text
   * @param {{signal?: AbortSignal, state?: object, agent?: string, checkpoint?: string, clientId?: string}} options
   *   ``state`` is merged into the thread's; ``checkpoint`` goes back there first, in the same save; the same
   *   ``clientId`` twice is one turn.
   * @returns {Promise<{status: string, text: string, messages: object[], usage: object, pending: object[],
   *   run_id: string}>} ``status`` is "completed", or "suspended" where a person is waited for.
   */
  async send(text, options = {}) {
    return replyAtTheEnd(this.stream(text, options));
  }

  /**
   * The same turn, piece by piece.
   *
   * @yields {object} The AG-UI events of the run; the last one is ``{type: "reply", reply}``. Leaving cancels the run.
   */
  async *stream(text, { signal, ...options } = {}) {
    yield* follow(this, async () => (await this.submit(text, options)).id, signal);
  }

  /** Save a turn as queued, and return its run at once. */
  async submit(text, { state, agent, checkpoint, clientId = newId() } = {}) {
    const known = this.transcript.local.find((each) => each.id === clientId);
    const entry = known ?? (checkpoint ? null : this.transcript.addLocal(clientId, text));
    const { ticket } = this.config; // needed where the conversation does not exist yet: only the server knows
    const body = { text, client_id: clientId, state, agent, checkpoint, ticket };
    this.#mark(entry, "sending");
    try {
      const run = await this.api.post(`${this.thread}runs/`, body);
      this.transcript.named(clientId, run.id);
      this.nudge();
      return run;
    } catch (error) {
      this.#mark(entry, "failed");
      throw this.noted(error);
    }
  }

  /** Approve every call that waits. */
  approve(options = {}) {
    return this.#answerAll({ approve: true }, options);
  }

  /** Reject every call that waits; the model is told the reason. */
  reject(reason = "", options = {}) {
    return this.#answerAll({ approve: false, reason }, options);
  }

  /**
   * Answer some approvals, and wait until the turn rests.
   *
   * @param {Object<string, boolean | {approve: boolean, reason?: string, arguments?: object, digest?: string}>}
   *   decisions By the id of the approval.
   */
  decide(decisions, { signal } = {}) {
    return replyAtTheEnd(follow(this, async () => (await this.answer(decisions)).run_id, signal));
  }

  #answerAll(answer, options) {
    const decisions = this.transcript.pending.map(({ id, digest }) => [id, { ...answer, digest }]);
    return this.decide(Object.fromEntries(decisions), options);
  }

  /** Answer some approvals; returns at once: ``{thread, run_id, status, pending}``. */
  answer(decisions) {
    return this.attempt(() => this.api.post(`${this.thread}decide/`, { decisions }));
  }

  /** Continue the failed or interrupted run, and wait until it rests. */
  retry({ signal } = {}) {
    return replyAtTheEnd(follow(this, async () => (await this.resume()).id, signal));
  }

  /** Continue the failed or interrupted run; returns it at once. */
  resume() {
    return this.attempt(() => this.api.post(`${this.thread}retry/`));
  }

  /** Stop exactly this run; it is saved. */
  cancel(run = this.transcript.run) {
    return this.attempt(() => this.api.post(`runs/${segment(run)}/cancel/`));
  }

  // The conversation -------------------------------------------------------------------------------------------------

  /** The stored messages, oldest first: the newest ``limit`` of them. */
  async messages({ limit = PAGE } = {}) {
    const pages = await this.#pages("messages/", limit);
    return pages.reverse().flat().slice(-limit);
  }

  /** The checkpoints, newest first. */
  async history({ limit = 20 } = {}) {
    return (await this.#pages("history/", limit)).flat().slice(0, limit);
  }

  /** Make an older checkpoint the head again; gives the new head. */
  rewind(checkpoint) {
    return this.attempt(() => this.api.post(`${this.thread}rewind/`, { checkpoint }));
  }

  /** Say something else in the place of a message: the conversation goes back before it, in the same save. */
  async edit(entry, text, options = {}) {
    const { before } = await this.#place(entry);
    return this.submit(text, { ...options, checkpoint: before });
  }

  /** Have the turn of an answer answered again, from where its question was. */
  async regenerate(entry) {
    const first = this.transcript.entries.find((each) => each.run === entry.run && each.role !== "user");
    const { before } = await this.#place(first);
    await this.rewind(before);
    return this.resume();
  }

  /** Show another version of a message, with what was said behind it. */
  async choose(entry, step) {
    const versions = await this.#versions(entry);
    const now = versions.findIndex((each) => each.id === entry.id);
    const chosen = versions[now + step];
    if (chosen) await this.rewind(chosen.checkpoint);
  }

  /** Which of its versions a message is. */
  async #count(entry) {
    const versions = await this.#versions(entry);
    entry.branch = { index: versions.findIndex((each) => each.id === entry.id), count: versions.length };
    this.tell("entry", { entry });
  }

  async #versions(entry) {
    return (await this.attempt(() => this.api.get(`${this.thread}messages/${segment(entry.id)}/siblings/`))).results;
  }

  async #place(entry) {
    return (await this.#versions(entry)).find((each) => each.id === entry.id);
  }

  /** Delete the conversation and everything of it. */
  async delete() {
    await this.attempt(() => this.api.delete(this.thread));
    this.transcript.local = [];
    await this.refresh();
  }

  /** Read the page of messages before what is there; false where there is none. */
  async earlier() {
    const { earlier } = this.transcript;
    if (!earlier || this.reading) return Boolean(earlier);
    this.reading = true;
    try {
      this.transcript.prepend(await this.api.follow(earlier));
    } finally {
      this.reading = false;
    }
    return true;
  }

  async #pages(path, limit) {
    const pages = [];
    let page = await this.api.get(this.thread + path, { limit: Math.min(limit, 200) });
    pages.push(page.results);
    while (page.next && pages.flat().length < limit) {
      page = await this.api.follow(page.next);
      pages.push(page.results);
    }
    return pages;
  }

  #mark(entry, sending) {
    if (!entry) return;
    entry.sending = sending;
    this.tell("entry", { entry });
  }
}

/** The configuration that ``{% criogen_chat %}`` wrote into the page, by the id of its script element. */
export function configuration(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** An id that no other message has. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID(); // only where the page came over TLS, or from this machine
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
