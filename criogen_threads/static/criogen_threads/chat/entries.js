// What a page has of one message: made from a row of the API, or grown from the feed.

export class Entry {
  constructor(id, role, values = {}) {
    this.id = id;
    this.key = id; // what the page knows it by: a message keeps its place when the server has taken it
    this.role = role; // "user", "assistant" or "tool"
    this.text = "";
    this.html = null; // the server's, rendered and sanitised
    this.blocks = []; // while it streams: {html, offset, end} of the blocks that are complete
    this.reasoning = "";
    this.calls = [];
    this.attachments = [];
    this.agent = "";
    this.run = null;
    this.parent = null;
    this.position = 0;
    this.live = false; // still being written
    this.sending = ""; // "", "sending" or "failed": a message of this page that the server has not told of yet
    this.branch = { index: 0, count: 1 }; // which of its versions it is
    this.forked = false; // the first one behind a rewind: there are other versions of it
    this.note = null; // how a run ended behind it: {run, code, message, partial}
    Object.assign(this, values);
  }

  /** Whether there is anything to show. */
  get visible() {
    return this.role !== "tool" && Boolean(this.text || this.calls.length || this.attachments.length || this.note);
  }

  call(id) {
    return this.calls.find((each) => each.id === id);
  }
}

export function newCall(id, name, values = {}) {
  // state: asked, waiting, running, done, failed, declined
  return { id, name, arguments: "", hidden: false, state: "asked", result: null, ...values };
}

/** Where the tool call of a wire id stands: the message's id is its first part. */
export const messageOf = (wireId) => wireId.split(":", 1)[0];

/** The wire id of the call where an approval is shown: its own, or the one that asked the agent that waits. */
export const placeOf = ({ within, toolCallId }) => within ?? toolCallId;

/** The entries of a page of ``messages/``, oldest first. */
export const entriesOf = (rows) => rows.map(entryOf);

/** Give the calls of saved answers their results, which may have come with another page. */
export function link(entries) {
  let asked = [];
  for (const entry of entries) {
    if (entry.role === "assistant") asked = entry.calls;
    if (entry.role !== "tool" || entry.callId) continue;
    const call = asked.find((each) => each.given === entry.result.id && each.result === null);
    if (!call) continue;
    entry.callId = call.id;
    settle(call, entry.result.content, entry.result);
  }
}

/** A call has its result. */
export function settle(call, content, { is_error: failed = false, hidden = false, declined = false } = {}) {
  call.result = hidden || content === null ? "" : readable(content);
  call.hidden = call.hidden || hidden;
  if (declined) call.state = "declined";
  else if (call.state !== "declined") call.state = failed ? "failed" : "done";
}

/** A call has lost its result: a rewind went back before it. */
export function unsettle(call) {
  call.result = null;
  call.state = "asked";
}

export function readable(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function entryOf(row) {
  const of = (kind) => row.content.filter((block) => kind in block);
  return new Entry(row.id, row.role, {
    text: row.role === "tool" ? "" : of("text").map((block) => block.text).join(""),
    html: row.html ?? null,
    reasoning: of("reasoning").map((block) => block.reasoning).filter((text) => typeof text === "string").join(""),
    attachments: [...of("image"), ...of("file")],
    calls: calls(row).map((call, index) =>
      newCall(`${row.id}:${index}`, call.name, {
        given: call.id, // the provider's, by which its result finds it
        arguments: call.arguments,
        hidden: Boolean(call.hidden),
      }),
    ),
    result: row.role === "tool" ? { ...row.content[0].tool_result, declined: row.metadata.rejected === true } : null,
    agent: row.agent,
    run: row.run_id,
    position: row.position,
    created: row.created_at_ms,
    parent: row.parent_id,
    branch: { index: row.index ?? 0, count: row.siblings ?? 1 },
  });
}

const calls = (row) => row.content.filter((block) => "tool_call" in block).map((block) => block.tool_call);
