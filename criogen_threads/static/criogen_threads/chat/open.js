// The answer under way, as this page has it: its text, its reasoning and its calls grow at their ends.

export class OpenAnswer {
  /** ``tell``: the transcript's. */
  constructor(entry, tell) {
    this.entry = entry;
    this.tell = tell;
    this.parts = new Map(); // by their id on the wire: {kind, end, call}
  }

  /** How much of it is here. Parts other than text come again from their beginning. */
  place() {
    const { entry, parts } = this;
    for (const [name, part] of parts) if (part.kind !== "text") parts.delete(name);
    entry.reasoning = "";
    entry.calls = [];
    this.tell("entry", { entry });
    const text = parts.get(entry.id);
    return text ? { message: entry.id, offset: text.end } : {};
  }

  /** A part begins, maybe once more. */
  part(name, kind, values = {}) {
    const { entry, parts } = this;
    if (parts.has(name)) this.#restart(parts.get(name));
    const part = parts.get(name) ?? { kind, end: 0, ...values };
    parts.set(name, part);
    if (part.call && !entry.call(name)) {
      entry.calls.push(part.call);
      this.tell("entry", { entry });
    }
  }

  #restart(part) {
    const { entry } = this;
    part.end = 0;
    if (part.call) part.call.arguments = "";
    else entry[part.kind] = "";
    entry.blocks = [];
    this.tell("entry", { entry });
  }

  grow(name, delta, { offset, end } = {}) {
    const part = this.parts.get(name);
    if (!part) return;
    const missing = offset !== undefined && offset > part.end;
    if (missing) return void this.tell("stale");
    if (offset !== undefined && offset < part.end) delta = [...delta].slice(part.end - offset).join("");
    if (!delta) return;
    part.end = end ?? part.end + [...delta].length;
    const { entry } = this;
    if (part.call) part.call.arguments += delta;
    else entry[part.kind] += delta;
    this.tell("grow", { entry, kind: part.kind, delta });
  }

  /** HTML of blocks that are complete. */
  block({ message, offset, end, html }) {
    const { entry } = this;
    if (entry.id !== message) return;
    if (offset === 0) entry.blocks = [];
    if (offset !== (entry.blocks.at(-1)?.end ?? 0)) return;
    entry.blocks.push({ html, offset, end });
    this.tell("grow", { entry, kind: "block", delta: "" });
  }
}
