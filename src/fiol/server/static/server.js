// Requests to the server: the stream of events, and changes that need a token.

import { askForToken } from "./dialog.js";

/** Milliseconds without an event after which the stream is opened again, and between attempts. */
const STALLED = 15000;
const RETRY = 2000;

/** The token of this tab: it is in memory and, so that a reload keeps it, in the tab's own storage. */
const TOKEN = "fiol-token";
let token = stored();

function stored() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

function keep(given) {
  token = given;
  try {
    sessionStorage.setItem(TOKEN, given);
  } catch {
    // Storage is blocked: the token lasts as long as the page.
  }
}

/** Return the answer to a request, by default with the token of the tab, as `{ status, ok, json }`. */
async function request(method, path, body, given = token) {
  const headers = { accept: "application/json" };
  if (given) headers.authorization = `Bearer ${given}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const json = await answer.json().catch(() => null);
  return { status: answer.status, ok: answer.ok, json };
}

/** Return why a request was refused. */
export function reasonOf({ status, json }) {
  return json?.error?.reason ?? `the server answered with status ${status}`;
}

/** Change something; `given` is a token to use from now on, if it is right. Returns `{ ok, needsToken, reason }`. */
export async function change(path, body, given = null) {
  let answer;
  try {
    answer = await request("POST", path, body, given ?? token);
  } catch {
    return { ok: false, needsToken: false, reason: "the server cannot be reached" };
  }
  if (answer.ok && given) keep(given);
  const needsToken = answer.status === 401 || answer.status === 403;
  return { ok: answer.ok, needsToken, reason: answer.ok ? "" : reasonOf(answer) };
}

/** Open the session of a token, whose cookie the stream of events needs; returns why not, or nothing. */
async function openSession(given) {
  const answer = await request("POST", "session", { token: given }, null);
  if (answer.ok) keep(given);
  return answer.ok ? "" : reasonOf(answer);
}

/** The events of one model; opens itself again whenever it ends. */
export class Stream {
  /** `listeners` has `history(json)`, `status(json)` and `state(name)`: "live", "connecting" or "locked". */
  constructor(listeners) {
    this.listeners = listeners;
    this.source = null;
    this.timer = null;
    setInterval(() => this.#watch(), 1000);
  }

  /** Receive events about a model, by default about the first one. */
  open(model) {
    this.model = model;
    this.#close();
    this.listeners.state("connecting");
    const query = model ? `?model=${encodeURIComponent(model)}` : "";
    const source = new EventSource(`events${query}`);
    this.source = source;
    this.heard = Date.now();
    for (const name of ["history", "status"]) {
      source.addEventListener(name, (event) => {
        if (source !== this.source) return;
        this.heard = Date.now();
        this.tried = false;
        if (name === "status") this.listeners.state("live");
        this.listeners[name](JSON.parse(event.data));
      });
    }
    source.addEventListener("error", () => {
      if (source !== this.source) return;
      this.listeners.state("connecting");
      if (source.readyState === EventSource.CLOSED) this.#again(); // the browser gives up after a refusal
    });
  }

  #close() {
    clearTimeout(this.timer);
    this.timer = null;
    this.source?.close();
    this.source = null;
  }

  #watch() {
    if (this.source && Date.now() - this.heard > STALLED) this.open(this.model);
  }

  #again() {
    this.#close();
    this.timer = setTimeout(() => this.#unlock(), this.tried ? RETRY : 0);
    this.tried = true;
  }

  /** Ask for a token if that is what is missing, and open the stream again. */
  async #unlock() {
    let answer;
    try {
      answer = await request("GET", "status");
    } catch {
      this.#again();
      return;
    }
    if (answer.status === 401 || answer.status === 403) {
      this.listeners.state("locked");
      const refused = !token || (await openSession(token)) !== "";
      if (refused && !(await askForToken(openSession))) return; // `open` asks again
    } else if (!answer.ok) {
      this.#again();
      return;
    } else if (token) {
      await openSession(token); // the token is right, and its cookie is missing
    }
    this.open(this.model);
  }
}
