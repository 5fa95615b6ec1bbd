// The JavaScript client of a conversation: everything that the element does, without the element.

import { follow, replyAtTheEnd } from "./following.js";
import { Api, ChatError, segment } from "./http.js";
import { Poller } from "./polling.js";
import { Socket } from "./socket.js";
import { Transcript } from "./transcript.js";

const PAGE = 50;

/**
 * A conversation.
 *
 * ``send``, ``stream``, ``approve``, ``reject``, ``decide`` and ``retry`` see a turn through to where it rests; the
 * signal of ``{signal}`` cancels the run, which is saved nevertheless. Whatever the server refuses is a ``ChatError``
 * with the ``code`` of the Python API.
 *
 * Events: "change" (``detail.what``: see Transcript, and "connection"), as ``CustomEvent``.
 */
export class Chat extends EventTarget {
  /** @param {object} config What ``{% criogen_chat %}`` writes: see ``configuration``. */
  constructor(config) {
    super();
    this.config = config;
    this.api = new Api(config);
    this.thread = `threads/${segment(config.thread)}/`;
    this.transcript = new Transcript((what, detail) => this.#heard(what, detail));
    this.connection = "connecting"; // connecting, open, lost, polling, ended, closed
    this.trouble = ""; // the code of the error that ended it
    this.joined = false;
    this.listeners = new Set();
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
      this.#nudge();
      return run;
    } catch (error) {
      this.#mark(entry, "failed");
      throw this.#noted(error);
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
    return this.#do(() => this.api.post(`${this.thread}decide/`, { decisions }));
  }

  /** Continue the failed or interrupted run, and wait until it rests. */
  retry({ signal } = {}) {
    return replyAtTheEnd(follow(this, async () => (await this.resume()).id, signal));
  }

  /** Continue the failed or interrupted run; returns it at once. */
  resume() {
    return this.#do(() => this.api.post(`${this.thread}retry/`));
  }

  /** Stop exactly this run; it is saved. */
  cancel(run = this.transcript.run) {
    return this.#do(() => this.api.post(`runs/${segment(run)}/cancel/`));
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
    return this.#do(() => this.api.post(`${this.thread}rewind/`, { checkpoint }));
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
    this.#tell("entry", { entry });
  }

  async #versions(entry) {
    return (await this.#do(() => this.api.get(`${this.thread}messages/${segment(entry.id)}/siblings/`))).results;
  }

  async #place(entry) {
    return (await this.#versions(entry)).find((each) => each.id === entry.id);
  }

  /** Delete the conversation and everything of it. */
  async delete() {
    await this.#do(() => this.api.delete(this.thread));
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

  // The feed ---------------------------------------------------------------------------------------------------------

  /** Read the conversation and follow it from now on. Called by itself where a turn begins. */
  connect() {
    this.connecting ??= this.#connect();
    return this.connecting;
  }

  async #connect() {
    await this.#read().catch(() => {});
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const address = `${scheme}//${location.host}${this.config.socket}${segment(this.config.thread)}/`;
    this.poller = new Poller(this);
    this.socket = new Socket(address, {
      place: () => {
        this.joined = false;
        return this.transcript.place();
      },
      frame: (frame) => this.#frame(frame),
      state: (state, code) => this.#connected(state, code),
    });
  }

  /** Follow it no more. */
  close() {
    this.poller?.stop();
    this.socket?.close();
    this.#become("closed");
    this.connecting = undefined;
  }

  /** Read the conversation anew, and go on from there. */
  async refresh() {
    this.joined = false;
    await this.#read();
    this.socket?.subscribe();
    this.poller?.soon({ anew: true });
  }

  async #read() {
    const query = { limit: PAGE, html: 1, branches: 1 };
    const page = await this.optional(() => this.api.get(`${this.thread}messages/`, query));
    if (page) this.transcript.begin(page);
    else this.transcript.forget();
    this.#tell("structure");
  }


  #frame(frame) {
    if (frame.type === undefined) {
      if (this.joined) this.transcript.apply(frame);
    } else if (frame.type === "subscribed") {
      this.joined = true;
      this.#join(frame);
    } else if (frame.type === "thread") {
      this.transcript.epoch = frame.epoch;
    } else if (frame.type === "resync") {
      this.refresh().catch(() => {});
    }
  }

  /** Take over where the thread stands; of an answer that was stopped, what it had said. */
  #join(standing) {
    this.transcript.joined(standing);
    const { failure, tail } = this.transcript;
    if (!failure || !tail?.note || tail.note.recalled) return;
    tail.note.recalled = true;
    this.#recall(failure.run).catch(() => {});
  }

  async #recall(run) {
    const { results } = await this.api.get(`${this.thread}events/`, { type: "error", run, limit: 200 });
    const partial = results.at(-1)?.details.partial;
    if (partial && this.transcript.failure?.run === run) this.transcript.partial(run, partial);
  }

  #connected(state, code) {
    if (state === "blocked") this.poller.start();
    else if (state !== "lost") this.poller.stop();
    if (state === "refused") this.#end(code);
    else if (!this.poller.running) this.#become(state);
  }

  #become(connection) {
    if (this.connection === connection || this.connection === "ended") return;
    this.connection = connection;
    this.#tell("connection");
  }

  /** A change was made: where nothing is pushed, look soon. */
  #nudge() {
    this.poller?.soon();
  }

  /** This page's session, or its right to be here, is over. */
  #end(code) {
    this.trouble = code;
    this.poller?.stop();
    this.#become("ended");
  }

  #noted(error) {
    if (error.code === "not_authenticated") this.#end(error.code);
    return error;
  }

  async #do(work) {
    try {
      const done = await work();
      this.#nudge();
      return done;
    } catch (error) {
      throw this.#noted(error);
    }
  }

  /** Whether the poller reached the server. */
  reached(server) {
    this.#become(server ? "polling" : "lost");
  }

  /** What the poller found; null where there is no conversation (yet). */
  polled(page) {
    if (page?.resync) return void this.refresh().catch(() => {});
    if (page) {
      for (const frame of page.results) this.transcript.apply(frame);
      this.#join(page);
    } else if (this.transcript.epoch) {
      this.transcript.forget();
      this.#tell("structure");
    }
  }

  /** What a request gives; null where the conversation does not exist (yet). */
  async optional(work) {
    try {
      return await work();
    } catch (error) {
      if (error.code === "thread_not_found") return null;
      throw this.#noted(error);
    }
  }

  error(code, message, facts) {
    return new ChatError(code, message, facts);
  }

  #mark(entry, sending) {
    if (!entry) return;
    entry.sending = sending;
    this.#tell("entry", { entry });
  }

  #heard(what, detail) {
    if (what === "stale") return void this.refresh().catch(() => {});
    if (what === "said" && detail.entry.forked) this.#count(detail.entry).catch(() => {});
    this.#tell(what, detail);
  }

  #tell(what, detail = {}) {
    this.dispatchEvent(new CustomEvent("change", { detail: { what, ...detail } }));
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
