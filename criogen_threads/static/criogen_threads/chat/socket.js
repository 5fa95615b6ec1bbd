// The websocket of a thread: it comes back by itself, answers pings and acknowledges pages.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 20_000;
const PATIENCE = 8_000; // for the first word of the server
const SILENCE = 75_000; // the server pings three times a minute
const AFTER_AN_ERROR = 1_000; // the feed has ended, or the socket is about to be closed with a reason
const BLOCKED_AFTER = 2; // attempts that never opened, until sockets count as blocked

/** Closing codes after which coming back would change nothing. */
const REFUSED = { 4401: "not_authenticated", 4403: "origin_refused", 4404: "thread_not_found" };

export class Socket {
  /**
   * @param {string} address The websocket's.
   * @param {{place: function(): object, frame: function(object), state: function(string, string=)}} owner
   *   ``place`` says where to subscribe, ``frame`` is given each frame of the feed, ``state`` is told "open",
   *   "lost", "blocked" or "refused" (with a code).
   */
  constructor(address, owner) {
    this.address = address;
    this.owner = owner;
    this.pause = FIRST_PAUSE;
    this.failures = 0;
    this.socket = null;
    this.timer = 0;
    this.closed = false;
    this.wake = () => this.#retrySoon();
    addEventListener("online", this.wake);
    addEventListener("pageshow", this.wake);
    document.addEventListener("visibilitychange", this.wake);
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    const socket = (this.socket = new WebSocket(this.address));
    let opened = false;
    this.#within(PATIENCE);
    socket.onopen = () => this.#say({ type: "subscribe", html: true, ...this.owner.place() });
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      this.#within(SILENCE);
      const frame = JSON.parse(data);
      if (frame.type === "subscribed" && !opened) {
        opened = true;
        this.failures = 0;
        this.pause = FIRST_PAUSE;
        this.owner.state("open");
      }
      this.#take(frame);
    };
    socket.onclose = ({ code }) => {
      if (socket === this.socket) this.#lost(code, opened);
    };
  }

  /** Subscribe anew on the same socket: what this page has is not how the server goes on. */
  subscribe() {
    this.#say({ type: "subscribe", html: true, ...this.owner.place() });
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    removeEventListener("online", this.wake);
    removeEventListener("pageshow", this.wake);
    document.removeEventListener("visibilitychange", this.wake);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  #say(frame) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  #take(frame) {
    if (frame.type === "ping") this.#say({ type: "pong" });
    else if (frame.type === "page") this.#say({ type: "ack", page: frame.page });
    else this.owner.frame(frame);
    if (frame.type === "error") this.#within(AFTER_AN_ERROR);
  }

  /** Give a connection up that says nothing: a dead one does not always say so. */
  #within(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#lost(0, true), milliseconds);
  }

  #lost(code, opened) {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    if (this.closed) return;
    if (REFUSED[code]) {
      this.owner.state("refused", REFUSED[code]);
      return;
    }
    this.failures += opened ? 0 : 1;
    this.owner.state(this.failures >= BLOCKED_AFTER ? "blocked" : "lost");
    this.timer = setTimeout(() => this.open(), this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(LONGEST_PAUSE, this.pause * 2);
  }

  #retrySoon() {
    if (this.closed || this.socket || document.hidden) return;
    this.pause = FIRST_PAUSE;
    this.open();
  }
}
