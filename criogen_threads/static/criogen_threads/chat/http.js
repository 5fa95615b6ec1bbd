// Requests to the API of criogen_threads, and the errors that it answers with.

export class ChatError extends Error {
  /**
   * What the server refuses, or what kept it from answering.
   *
   * @param {string} code The code that the Python API has; here also "offline", "not_authenticated", "unreadable".
   * @param {string} message For a person.
   * @param {{status?: number, details?: object}} facts What a program may want to know.
   */
  constructor(code, message, { status = 0, details = {} } = {}) {
    super(message);
    this.name = "ChatError";
    this.code = code;
    this.status = status;
    this.details = details;
  }
}

export class Api {
  /** @param {{api: string, csrf: {cookie: string, header: string, token: string}}} config As the tag writes it. */
  constructor({ api, csrf }) {
    this.root = new URL(api, document.baseURI);
    this.csrf = csrf;
  }

  get(path, query = {}) {
    return this.#ask("GET", path, query);
  }

  post(path, body = undefined, query = {}) {
    return this.#ask("POST", path, query, body);
  }

  delete(path) {
    return this.#ask("DELETE", path);
  }

  /** The next page of one that was read: its address is followed only on our own API. */
  follow(next) {
    const address = new URL(next, this.root);
    return this.#fetch(new URL(address.pathname + address.search, this.root), "GET");
  }

  #ask(method, path, query = {}, body = undefined) {
    const address = new URL(path, this.root);
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
    return this.#fetch(address, method, body);
  }

  async #fetch(address, method, body) {
    const headers = { Accept: "application/json" };
    if (method !== "GET") headers[this.csrf.header] = this.#token();
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const init = { method, headers, credentials: "same-origin", cache: "no-store", body: JSON.stringify(body) };
    let answer;
    try {
      answer = await fetch(address, init);
    } catch {
      throw new ChatError("offline", "The server cannot be reached.");
    }
    if (answer.status === 204) return null;
    const read = await answer.json().catch(() => null);
    if (answer.ok && read !== null && !answer.redirected) return read;
    throw problem(answer, read);
  }

  /** The cookie's token is the newer one after somebody signed in elsewhere; the page's serves where it is hidden. */
  #token() {
    const prefix = `${this.csrf.cookie}=`;
    const found = document.cookie.split("; ").find((each) => each.startsWith(prefix));
    return found ? decodeURIComponent(found.slice(prefix.length)) : this.csrf.token;
  }
}

function problem(answer, read) {
  const facts = { status: answer.status, details: read?.details ?? {} };
  if (read?.code) return new ChatError(read.code, read.detail ?? read.title ?? "", facts);
  if (answer.status >= 500) return new ChatError("offline", "The server did not answer.", facts);
  const code = answer.status === 401 || answer.redirected ? "not_authenticated" : "unreadable";
  return new ChatError(code, `The server answered ${answer.status}.`, facts);
}

/** One part of an address. */
export const segment = (text) => encodeURIComponent(text);
