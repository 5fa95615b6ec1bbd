// A turn, seen through to where it rests.

import { ChatError } from "./http.js";

const AT_REST = new Set(["completed", "failed", "requires_action"]);
const LOOK_AGAIN = 15_000; // at a run whose end was not heard of
const LOOK_SOON = 2_000; // the same where nothing is pushed, or the last look failed
const MOST_MISSED = 60; // looks in a row that do not reach the server, until it is given up

/**
 * Begin a turn, yield its AG-UI events, and at last ``{type: "reply", reply}``.
 *
 * An aborted signal cancels the run and waits until it is saved; whoever leaves the generator cancels it, too.
 *
 * @param {Chat} chat
 * @param {function(): Promise<string>} begin Gives the run.
 * @param {AbortSignal} [signal]
 */
export async function* follow(chat, begin, signal) {
  signal?.throwIfAborted();
  await chat.connect();
  const ear = new Ear(chat);
  let run = null;
  let view = null;
  try {
    run = await begin();
    let missed = 0;
    for (let listened = signal; !view; ) {
      yield* heard(ear, run, chat.connection === "open" && !missed ? LOOK_AGAIN : LOOK_SOON, listened);
      if (listened?.aborted) {
        await chat.cancel(run).catch(() => {});
        listened = undefined;
      }
      try {
        view = atRest(await chat.api.get(`runs/${run}/`));
        missed = 0;
      } catch (error) {
        if (error.code !== "offline" || signal?.aborted || ++missed > MOST_MISSED) throw error;
      }
    }
    signal?.throwIfAborted();
    yield { type: "reply", reply: await replyOf(chat, view) };
  } finally {
    ear.close();
    if (run && !view) chat.cancel(run).catch(() => {});
  }
}

const atRest = (view) => (AT_REST.has(view.status) ? view : null);

/** The last thing that a turn yields: its reply. */
export async function replyAtTheEnd(events) {
  let reply = null;
  for await (const event of events) if (event.type === "reply") reply = event.reply;
  return reply;
}

/** The events of a run until it rests, the time is over or the signal aborts. */
async function* heard(ear, run, milliseconds, signal) {
  const deadline = Date.now() + milliseconds;
  for (;;) {
    const each = await ear.next(deadline - Date.now(), signal);
    if (!each || (each.what === "rest" && each.run === run)) return;
    if (each.what === "wire" && each.run === run) yield each.event;
  }
}

async function replyOf(chat, view) {
  if (view.status === "failed") throw new ChatError(view.error_code, view.last_error ?? "");
  const messages = (await chat.messages({ limit: 200 })).filter((each) => each.run_id === view.id);
  const answer = messages.findLast((each) => each.role === "assistant");
  return {
    status: view.status === "completed" ? "completed" : "suspended",
    text: (answer?.content ?? []).map((block) => block.text ?? "").join(""),
    messages,
    usage: view.usage,
    pending: view.required_action ?? [],
    run_id: view.id,
  };
}

/** A queue of what a chat tells. */
class Ear {
  constructor(chat) {
    this.chat = chat;
    this.queue = [];
    this.ring = () => {};
    this.hear = ({ detail }) => {
      if (detail.what !== "wire" && detail.what !== "rest") return;
      this.queue.push(detail);
      this.ring();
    };
    chat.addEventListener("change", this.hear);
  }

  close() {
    this.chat.removeEventListener("change", this.hear);
  }

  /** The next thing; null when the time is over, or the signal aborts. */
  async next(milliseconds, signal) {
    if (signal?.aborted) return null;
    if (!this.queue.length) {
      await new Promise((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const timer = setTimeout(wake, milliseconds);
        signal?.addEventListener("abort", wake);
        this.ring = wake;
      });
    }
    return (signal?.aborted ? null : this.queue.shift()) ?? null;
  }
}
