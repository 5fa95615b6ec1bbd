// Where no websocket gets through: the feed is asked for every few seconds, and gives the same frames.

const PAUSE = 2_000;
const HIDDEN = 15_000;
const LONGEST = 30_000;

export class Poller {
  constructor(chat) {
    this.chat = chat;
    this.running = false;
    this.next = null; // where to look on
    this.pause = PAUSE;
    this.timer = 0;
  }

  start() {
    if (this.running) return;
    this.running = true;
    this.next = null;
    this.pause = PAUSE;
    this.#look();
  }

  stop() {
    this.running = false;
    clearTimeout(this.timer);
  }

  /** Look at once: something was changed, or what is here was read anew. */
  soon({ anew = false } = {}) {
    if (anew) this.next = null;
    if (this.running) this.#look();
  }

  async #look() {
    clearTimeout(this.timer);
    const mine = (this.looking = {});
    try {
      const page = await this.#page();
      if (!this.running || mine !== this.looking) return;
      this.next = page?.next ?? null;
      this.chat.reached(true);
      this.chat.polled(page);
      this.pause = PAUSE;
    } catch (error) {
      if (error.code !== "offline") this.next = null; // it is refused: begin anew from what is here
      if (this.running) this.chat.reached(false);
      this.pause = Math.min(LONGEST, this.pause * 2);
    }
    if (!this.running || mine !== this.looking) return;
    this.timer = setTimeout(() => this.#look(), document.hidden ? HIDDEN : this.pause);
  }

  async #page() {
    const { chat } = this;
    if (this.next) return chat.optional(() => chat.api.follow(this.next));
    const { epoch, seq } = chat.transcript;
    const place = epoch ? { epoch, after: seq } : { after: 0 };
    return chat.optional(() => chat.api.get(`${chat.thread}feed/`, { html: 1, ...place }));
  }
}
