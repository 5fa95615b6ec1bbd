// A conversation, followed: it is read once, and kept up to date by the websocket, or by polling.

import { Api, segment } from "./http.js";
import { Poller } from "./polling.js";
import { Socket } from "./socket.js";
import { Transcript } from "./transcript.js";

export const PAGE = 50;

/** What ``Chat`` stands on. */
export class Connection extends EventTarget {
  constructor(config) {
    super();
    this.config = config;
    this.api = new Api(config);
    this.thread = `threads/${segment(config.thread)}/`;
    this.transcript = new Transcript((what, detail) => this.#heard(what, detail));
    this.connection = "connecting"; // connecting, open, lost, polling, ended, closed
    this.trouble = ""; // the code of the error that ended it
    this.following = null; // a token of its own for each time that it is connected
    this.joined = false; // the server has said where what it sends goes on from
  }

  /** Read the conversation and follow it from now on. Called by itself where a turn begins. */
  connect() {
    this.connecting ??= this.#connect();
    return this.connecting;
  }

  async #connect() {
    const mine = (this.following = {});
    await this.#readOrForget();
    if (mine !== this.following) return; // it was closed meanwhile, and maybe connected anew
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
    this.following = null;
    this.poller?.stop();
    this.socket?.close();
    this.#become("closed");
    this.connecting = undefined;
  }

  /** Read the conversation anew, and go on from there. */
  async refresh() {
    this.joined = false;
    await this.#readOrForget();
    this.socket?.subscribe();
    this.poller?.soon({ anew: true });
  }

  /** Where it cannot be read, the feed tells it from its beginning. */
  async #readOrForget() {
    const { following } = this;
    const query = { limit: PAGE, html: 1, branches: 1 };
    const page = await this.optional(() => this.api.get(`${this.thread}messages/`, query)).catch(() => null);
    if (following !== this.following) return;
    if (page) this.transcript.begin(page);
    else this.transcript.forget();
    this.tell("structure");
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
      this.refresh();
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
    this.tell("connection");
  }

  /** A change was made: where nothing is pushed, look soon. */
  nudge() {
    this.poller?.soon();
  }

  /** This page's session, or its right to be here, is over. */
  #end(code) {
    this.trouble = code;
    this.poller?.stop();
    this.socket?.close();
    this.#become("ended");
  }

  /** Take note of what an error says of this page; gives the error. */
  noted(error) {
    if (error.code === "not_authenticated") this.#end(error.code);
    return error;
  }

  /** Do something that changes the conversation. */
  async attempt(work) {
    try {
      const done = await work();
      this.nudge();
      return done;
    } catch (error) {
      throw this.noted(error);
    }
  }

  /** Whether the poller reached the server. */
  reached(server) {
    this.#become(server ? "polling" : "lost");
  }

  /** What the poller found; null where there is no conversation (yet). */
  polled(page) {
    if (page?.resync) return void this.refresh();
    if (page) {
      for (const frame of page.results) this.transcript.apply(frame);
      this.#join(page);
    } else if (this.transcript.epoch) {
      this.transcript.forget();
      this.tell("structure");
    }
  }

  /** What a request gives; null where the conversation does not exist (yet). */
  async optional(work) {
    try {
      return await work();
    } catch (error) {
      if (error.code === "thread_not_found") return null;
      throw this.noted(error);
    }
  }

  #heard(what, detail) {
    if (what === "stale") return void this.refresh();
    this.tell(what, detail);
  }

  /** Have listeners know. */
  tell(what, detail = {}) {
    this.dispatchEvent(new CustomEvent("change", { detail: { what, ...detail } }));
  }
}
