// Panels about the server: requests, durations, journal, snapshots, errors.

import { ChartPanel, TablePanel } from "./chart.js";
import { confirmChange } from "./dialog.js";
import { make } from "./dom.js";
import * as format from "./format.js";
import { facts } from "./model_panels.js";
import { change } from "./server.js";

const TIME = { label: "time", format: format.moment, time: true };

/** All panels that do not depend on the rows of a model. */
export class ServerPanels {
  /** `said(text)` shows what became of a change. */
  constructor(said) {
    this.said = said;
    const over = (options) => new ChartPanel({ x: TIME, ...options });
    this.requests = over({
      id: "requests",
      title: "Requests",
      about: "Requests and refusals per second.",
      y: { format: format.rate, zero: true },
    });
    this.durations = over({
      id: "durations",
      title: "Answer times",
      about: "From the first byte of a request to its answer.",
      y: { format: format.duration, log: true },
    });
    this.journal = over({
      id: "journal",
      title: "Journal",
      about: "Time of a commit, after which rows are durable.",
      y: { format: format.duration, log: true },
    });
    this.journalFacts = make("dl", { class: "facts" });
    this.journal.empty.before(this.journalFacts);
    this.queue = over({
      id: "queue",
      title: "Queue",
      about: "Rows that wait to be written.",
      y: { format: format.short, zero: true },
    });
    this.snapshots = new TablePanel({
      id: "snapshots",
      title: "Snapshots",
      about: "Saved states that the model can go back to.",
    });
    this.take = make("button", { type: "button", class: "quiet small", text: "Take one now" });
    this.take.addEventListener("click", () => this.#takeSnapshot());
    this.snapshots.tools.append(this.take);
    this.buttons = new Map();
    this.routes = new TablePanel({
      id: "routes",
      title: "Routes",
      about: "Since the server has started.",
    });
    this.errors = new TablePanel({
      id: "errors",
      wide: true,
      title: "Last errors",
      about: "Requests that were refused, and failures of the server, the newest first.",
    });
  }

  /** Show the state: `{ model, history, status }`. */
  show({ model, history, status }) {
    const { server: samples } = history;
    const line = (name, column, color, more = {}) => ({ name, values: samples[column] ?? [], color, ...more });
    const xs = samples.time ?? [];
    this.requests.show(xs, [line("Requests", "requests", "--blue"), line("Refused", "errors", "--red", { width: 1.5 })]);
    this.durations.show(
      xs,
      [
        line("Predict p50", "predict_p50", "--blue"),
        line("Predict p99", "predict_p99", "--blue", { width: 1.25, dash: [5, 4] }),
        line("Learn p50", "learn_p50", "--green"),
        line("Learn p99", "learn_p99", "--green", { width: 1.25, dash: [5, 4] }),
      ],
      { empty: "No requests to predict or to learn in the last minutes." },
    );
    this.#showJournal(model, samples, status, line);
    this.queue.show(xs, [line("Rows waiting", "queue_rows", "--violet", { fill: "--violet-fill" })]);
    this.#showSnapshots(model, status);
    this.#showRoutes(status.requests.routes);
    const rows = status.requests.errors.map((error) => [
      format.moment(error.time),
      { text: String(error.status), class: error.status >= 500 ? "bad" : "" },
      { text: error.route, class: "route" },
      { text: format.count(error.count), class: "number" },
      { text: error.reason, class: "reason" },
    ]);
    this.errors.show(["Last", "Status", "Route", "Times", "Reason"], rows, "No errors since the server has started.");
  }

  #showJournal(model, samples, { journal, time }, line) {
    facts(this.journalFacts, [
      ["Records", format.count(journal.position)],
      ["Size", format.bytes(journal.bytes)],
      ["Rows per commit", format.number(journal.rows_per_commit)],
      ["Queue", `${format.count(journal.queue_rows)} of ${format.short(journal.queue_limit)}`],
      ["Last snapshot", model ? format.ago(model.last_snapshot, time) : "–"],
      ["To replay", model ? `${format.count(model.replay_length)} records` : "–"],
    ]);
    const lines = [line("Commit p50", "commit_p50", "--teal"), line("Commit p99", "commit_p99", "--teal", { width: 1.25, dash: [5, 4] })];
    this.journal.show(samples.time ?? [], lines, { empty: "Nothing was written in the last minutes." });
  }

  #showRoutes(routes) {
    const rows = routes.map((one) => {
      const bad = Object.entries(one.statuses).reduce((sum, [status, n]) => sum + (Number(status) >= 400 ? n : 0), 0);
      const codes = Object.entries(one.statuses).map(([status, n]) => `${status}: ${format.count(n)}`).join(", ");
      return [
        { text: one.route, class: "route" },
        { text: format.count(one.requests), class: "number", title: codes },
        { text: format.count(bad), class: bad ? "number bad" : "number", title: codes },
        ...["p50", "p99", "p99.9"].map((p) => ({ text: format.duration(one[p]), class: "number" })),
      ];
    });
    this.routes.show(["Route", "Requests", "Refused", "p50", "p99", "p99.9"], rows, "No requests yet.");
  }

  // --- snapshots ------------------------------------------------------------------------------

  #showSnapshots(model, { time }) {
    this.model = model;
    this.take.disabled = !model;
    const snapshots = model?.snapshots ?? [];
    const known = new Map();
    const rows = snapshots.map((snapshot) => {
      const key = `${model.name}/${snapshot.file}`;
      known.set(key, this.buttons.get(key) ?? this.#rollBackButton(model.name, snapshot));
      return [
        { text: format.moment(snapshot.time), title: snapshot.file },
        { text: format.ago(snapshot.time, time), class: "number" },
        { text: format.count(snapshot.rounds), class: "number" },
        { text: format.bytes(snapshot.bytes), class: "number" },
        known.get(key),
      ];
    });
    this.buttons = known;
    this.snapshots.show(["Saved", "Age", "Rounds", "Size", ""], rows, "No snapshot yet: the first one is saved when the model is added.");
  }

  #rollBackButton(name, snapshot) {
    const button = make("button", { type: "button", class: "small", text: "Roll back…" });
    button.setAttribute("aria-label", `Roll back to the snapshot of ${format.moment(snapshot.time)}, ${format.count(snapshot.rounds)} rounds`);
    button.addEventListener("click", () => this.#rollBack(name, snapshot));
    return button;
  }

  async #rollBack(name, snapshot) {
    const lost = this.model.rounds - snapshot.rounds;
    const rows = lost > 0 ? `What it learned in ${format.count(lost)} rounds since then is undone; the rows stay in the journal.` : "";
    const done = await confirmChange({
      title: `Roll back ${name}?`,
      text: `The model continues from its snapshot of ${format.moment(snapshot.time)}, after ${format.count(snapshot.rounds)} rounds. ${rows} Its present state is saved as a snapshot first.`,
      confirm: "Roll back",
      danger: true,
      act: (token) => change(`models/${encodeURIComponent(name)}/rollback`, { position: snapshot.position }, token),
    });
    if (done) this.said(`${name} continues from its snapshot of ${format.moment(snapshot.time)}.`);
  }

  async #takeSnapshot() {
    const { name } = this.model;
    const path = `models/${encodeURIComponent(name)}/snapshots`;
    const first = await change(path);
    if (!first.ok && !first.needsToken) {
      this.said(`No snapshot was taken: ${first.reason}.`);
      return;
    }
    const ask = { title: `Take a snapshot of ${name}`, text: "The server saves the model now.", confirm: "Take a snapshot", token: true };
    const done = first.ok || (await confirmChange({ ...ask, act: (token) => change(path, undefined, token) }));
    if (done) this.said(`A snapshot of ${name} was saved.`);
  }
}
