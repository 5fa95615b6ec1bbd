// The text of an answer while it is written. The work for a piece depends on the piece, not on what is there already:
// text is added at the end of a small block of its own, and blocks that the server has rendered leave it for good.

import { h, sanitised } from "./dom.js";

const BLOCK = 2_000; // characters, after which a line's end begins a new block
const LONGEST_BLOCK = 8_000; // after which a space does, too

export class Streamed {
  constructor() {
    this.node = h("div", { class: "streamed" });
    this.rendered = h("div", { class: "markdown" });
    this.plain = h("div", { class: "plain" });
    this.node.append(this.rendered, this.plain);
    this.blocks = []; // plain ones: their text nodes
    this.length = 0; // of everything that was added
    this.replaced = 0; // how often text became HTML
  }

  add(text) {
    this.length += text.length;
    for (let rest = text; rest; ) {
      const last = this.blocks.at(-1);
      const cut = last ? boundary(last.length, rest) : 0;
      if (last && cut !== 0) {
        last.appendData(cut < 0 ? rest : rest.slice(0, cut));
        rest = cut < 0 ? "" : rest.slice(cut);
      }
      if (rest) this.#begin();
    }
  }

  #begin() {
    const text = document.createTextNode("");
    this.blocks.push(text);
    this.plain.append(h("div", { dir: "auto" }, text));
  }

  /** The next ``count`` code points of the plain text are this HTML. */
  replace(count, html) {
    this.replaced += 1;
    let left = count;
    while (left > 0 && this.blocks.length) {
      const [first] = this.blocks;
      const units = unitsOf(first.data, left);
      left -= units.points;
      if (units.units < first.length) {
        first.deleteData(0, units.units);
      } else {
        first.parentNode.remove();
        this.blocks.shift();
      }
    }
    this.rendered.append(sanitised(html));
  }
}

/** Where the text has to go on in another block: -1 nowhere, else how much of it stays in this one. */
function boundary(length, text) {
  if (length + text.length <= BLOCK) return -1;
  const line = text.indexOf("\n", Math.max(0, BLOCK - length));
  if (line >= 0) return line + 1;
  if (length + text.length <= LONGEST_BLOCK) return -1;
  const space = text.indexOf(" ", Math.max(0, LONGEST_BLOCK - length));
  return space >= 0 ? space + 1 : -1;
}

/** How many UTF-16 units the first ``count`` code points of a text have, and how many points there were. */
function unitsOf(text, count) {
  let points = 0;
  let units = 0;
  for (const character of text) {
    if (points === count) break;
    points += 1;
    units += character.length;
  }
  return { points, units };
}
