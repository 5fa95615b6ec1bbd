// A conversation as this page has it: pages of the API and frames of the feed, merged by id.
//
// A frame with a ``seq`` is saved, and final; one without is live: its text grows at its end, and is replaced by the
// saved message or withdrawn. Offsets count code points.

import { HANDLERS } from "./agui.js";
import { Entry, entriesOf, link, messageOf, placeOf, settle, unsettle } from "./entries.js";
import { OpenAnswer } from "./open.js";

export class Transcript {
  /**
   * @param {function(string, object=)} tell Hears "structure" (entries came or went), "grow" (``entry``, ``kind``,
   *   ``delta``), "entry" (one changed), "state", "rest" (a run ended or waits), "wire" (an AG-UI event), "said" (a
   *   message is complete) and "stale" (read the conversation anew).
   */
  constructor(tell) {
    this.tell = tell;
    this.local = []; // sent from here, and not told of by the server yet
    this.runs = new Map(); // ``client_id``: the run that it became
    this.forget();
  }

  /** Forget what the server told; what was sent from here stays. */
  forget() {
    this.epoch = null;
    this.seq = 0;
    this.entries = []; // saved, along the branch that is shown
    this.open = null; // the answer under way: an OpenAnswer
    this.state = "absent"; // absent, idle, running, suspended, failed, interrupted
    this.run = null;
    this.pending = [];
    this.failure = null;
    this.forked = false; // what comes next stands beside what was there
    this.earlier = null; // the address of the page before
  }

  /** Everything to show, oldest first. */
  get shown() {
    const open = this.open ? [this.open.entry] : [];
    return [...this.entries, ...open, ...this.local];
  }

  get tail() {
    return this.entries.at(-1) ?? null;
  }

  find(id) {
    return this.entries.find((each) => each.id === id) ?? (this.open?.entry.id === id ? this.open.entry : null);
  }

  // Pages ---------------------------------------------------------------------------------------------------------

  /** Take over the newest page. What is known keeps its place, and earlier pages that lead up to it stay. */
  begin(page) {
    const known = new Map(this.entries.map((each) => [each.id, each]));
    const news = page.epoch === this.epoch;
    const fresh = entriesOf(page.results);
    for (const each of fresh) {
      const { key = each.key, note = null } = known.get(each.id) ?? {};
      Object.assign(each, { key, note });
    }
    const joint = this.entries.findIndex((each) => each.id === fresh[0]?.id);
    if (joint < 1) this.earlier = page.next;
    this.entries = [...this.entries.slice(0, Math.max(0, joint)), ...fresh];
    link(this.entries);
    Object.assign(this, { epoch: page.epoch, seq: page.seq, open: null });
    this.#takeLocal();
    this.tell("structure");
    for (const entry of fresh) if (news && !known.has(entry.id)) this.tell("said", { entry });
  }

  /** Put an earlier page before what is there: what is there already stays as it is. */
  prepend(page) {
    const known = new Set(this.entries.map((each) => each.id));
    this.entries = [...entriesOf(page.results).filter((each) => !known.has(each.id)), ...this.entries];
    this.earlier = page.next;
    link(this.entries);
    this.tell("structure");
  }

  // Sending -------------------------------------------------------------------------------------------------------

  /** Show a message before the server has told of it. */
  addLocal(clientId, text) {
    const entry = new Entry(clientId, "user", { text, sending: "sending" });
    this.local.push(entry);
    this.tell("structure");
    return entry;
  }

  dropLocal(entry) {
    this.local = this.local.filter((each) => each !== entry);
    this.tell("structure");
  }

  /** The server took a message: its run is this one. */
  named(clientId, run) {
    this.runs.set(clientId, run);
    this.#takeLocal();
  }

  /** Messages that were sent from here and are saved now are shown once, in the place where they were. */
  #takeLocal() {
    const waiting = this.local.filter((local) => {
      const run = this.runs.get(local.id);
      const saved = run && this.entries.find((each) => each.role === "user" && each.run === run);
      if (saved) saved.key = local.key;
      return !saved;
    });
    if (waiting.length === this.local.length) return;
    this.local = waiting;
    this.tell("structure");
  }

  // The feed ------------------------------------------------------------------------------------------------------

  /** Where to go on from. Parts other than text come again from their beginning. */
  place() {
    const place = { epoch: this.epoch, after: this.seq };
    if (!this.open) return place;
    return { ...place, ...this.open.place() };
  }

  /** The server's answer to ``subscribe``. */
  joined({ epoch, state, run, pending }) {
    this.epoch = epoch;
    if (run?.status === "failed" && state === "failed") this.#failed(run.id, run.error_code, run.last_error ?? "");
    this.#become(state, run?.id ?? null, pending);
  }

  apply(frame) {
    if (frame.seq !== null && frame.seq <= this.seq) return;
    if (frame.client_id && frame.run) this.runs.set(frame.client_id, frame.run);
    for (const event of frame.events) {
      this.tell("wire", { event, run: frame.run });
      HANDLERS[event.type]?.(this, event, frame);
    }
    if (frame.html && !frame.events.length) this.open?.block(frame);
    if (frame.seq !== null) this.seq = frame.seq;
    if (frame.pending) this.#become(frame.state, frame.run, frame.pending);
  }

  #become(state, run, pending = []) {
    Object.assign(this, { state, run, pending });
    if (state === "idle" || state === "running") this.failure = null;
    for (const waits of pending) {
      const place = placeOf(waits);
      const call = this.find(messageOf(place))?.call(place);
      if (call) call.state = "waiting";
    }
    this.tell("state");
    if (state === "suspended") this.tell("rest", { run, status: "suspended" });
  }

  // Growing -------------------------------------------------------------------------------------------------------

  begun(id, role, { run, agent = "" }) {
    if (this.open?.entry.id === id) return this.open.entry;
    if (this.open) this.withdraw(this.open.entry.id);
    const entry = new Entry(id, role, { live: true, run, agent });
    this.open = new OpenAnswer(entry, this.tell);
    this.tell("structure");
    return entry;
  }

  part(name, kind, values) {
    this.open.part(name, kind, values);
  }

  grow(name, delta, place) {
    this.open?.grow(name, delta, place);
  }

  /** The half answer is void. */
  withdraw(id) {
    if (this.open?.entry.id !== id) return;
    this.open = null;
    this.tell("structure");
  }

  // Saving --------------------------------------------------------------------------------------------------------

  /** A message is saved: it stands behind its parent, and what stood there is of another branch. */
  commit(entry, { parent, position }, frame) {
    if (this.open?.entry === entry) this.open = null;
    const saved = this.find(entry.id);
    if (saved) return saved;
    const values = { parent, position, run: frame.run, agent: frame.agent ?? entry.agent, forked: this.forked };
    Object.assign(entry, { ...values, live: false, blocks: [], html: frame.html ?? null });
    this.forked = false;
    this.#cutBehind(parent, position);
    this.entries.push(entry);
    this.#takeLocal();
    this.tell("structure");
    this.tell("said", { entry });
    return entry;
  }

  result(entry, callId, content, metadata, frame) {
    entry.callId = callId;
    this.commit(entry, metadata, frame);
    this.#attach(entry, { callId, content, failed: metadata.isError, hidden: metadata.hidden });
  }

  #attach(entry, { callId, content, failed, hidden }) {
    const asked = this.find(messageOf(callId));
    const call = asked?.call(callId);
    if (!call) return;
    settle(call, content, { is_error: failed, hidden });
    this.tell("entry", { entry: asked });
  }

  #cutBehind(parent, position) {
    const at = this.entries.findIndex((each) => each.id === parent);
    this.#cut(at >= 0 ? at + 1 : this.entries.findIndex((each) => each.position >= position));
  }

  #cut(from) {
    if (from < 0 || from >= this.entries.length) return;
    for (const gone of this.entries.splice(from)) {
      const asked = gone.callId && this.find(messageOf(gone.callId));
      const call = asked && asked.call(gone.callId);
      if (call) unsettle(call);
      if (asked) this.tell("entry", { entry: asked });
    }
    this.tell("structure");
  }

  /** The conversation ends at this message now. */
  rewound(id) {
    const at = this.entries.findIndex((each) => each.id === id);
    if (id !== null && at < 0) return void this.tell("stale");
    this.#cut(at + 1);
    if (this.tail) this.tail.note = null;
    this.forked = true;
    this.#become("idle", null);
  }

  // Runs ----------------------------------------------------------------------------------------------------------

  started(run) {
    for (const entry of this.entries) {
      if (entry.note?.run !== run) continue;
      entry.note = null;
      this.tell("entry", { entry });
    }
    this.#become("running", run);
  }

  ended(run, status, code = "", message = "") {
    if (status === "completed") this.#become("idle", null);
    else this.#failed(run, code, message);
    this.tell("state");
    this.tell("rest", { run, status, code, message });
  }

  /** An approval was answered; when none is left, the run goes on. */
  decided(id, callId, approved) {
    const place = placeOf(this.pending.find((each) => each.id === id) ?? { toolCallId: callId });
    this.pending = this.pending.filter((each) => each.id !== id);
    const entry = this.find(messageOf(place));
    const call = entry?.call(place);
    if (call && place === callId) call.state = approved ? "running" : "declined";
    else if (call && !this.pending.some((each) => placeOf(each) === place)) call.state = "running";
    if (entry) this.tell("entry", { entry });
    if (this.state === "suspended" && !this.pending.length) this.state = "running";
    this.tell("state");
  }

  partial(run, text) {
    this.#note({ run, partial: text });
  }

  #failed(run, code, message) {
    this.failure = { run, code, message };
    this.state = code === "thread_interrupted" ? "interrupted" : "failed";
    this.run = run;
    this.pending = [];
    this.#note({ run, code, message });
  }

  #note(values) {
    const entry = this.tail;
    if (!entry) return;
    entry.note = { partial: "", code: "", message: "", ...entry.note, ...values };
    this.tell("entry", { entry });
  }
}
