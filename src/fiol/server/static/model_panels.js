// Panels about the shown model: loss, labels, calibration, features, weights.

import { ChartPanel, showTexts, TablePanel } from "./chart.js";
import { make, setText } from "./dom.js";
import * as format from "./format.js";

/** Points of a line over all rows: neighboring windows are merged, so that a line is not all noise. */
const MOST_POINTS = 80;
/** Marks of drift that are listed in words. */
const MARKS_LISTED = 3;

const ROWS = { label: "rows learned", format: format.count, tick: format.tick };
const TIME = { label: "time", format: format.moment, time: true };

/** Return windows merged to at most `MOST_POINTS`, as means weighted by mass, with x values by rows and by time. */
export function mergedWindows(windows) {
  const total = windows.rows.length;
  const every = Math.max(1, Math.ceil(total / MOST_POINTS));
  const names = ["loss", "constant_loss", "prediction", "label", "unseen"];
  const found = { rows: [], time: [], total: [], members: windows.members.map(() => []) };
  for (const name of names) found[name] = [];
  let rows = 0;
  let mass = 0;
  let loss = 0;
  for (let start = 0; start < total; start += every) {
    const places = Array.from({ length: Math.min(every, total - start) }, (_, k) => start + k);
    if (places.length < every / 2) break; // the mean of few rows would stand out
    const average = (values) => {
      let [sum, weight] = [0, 0];
      for (const k of places) {
        if (values[k] === null || values[k] === undefined) continue;
        sum += values[k] * windows.mass[k];
        weight += windows.mass[k];
      }
      return weight > 0 ? sum / weight : null;
    };
    for (const k of places) {
      rows += windows.rows[k];
      mass += windows.mass[k];
      loss += (windows.loss[k] ?? 0) * windows.mass[k];
    }
    found.rows.push(rows);
    found.time.push(windows.time[places[places.length - 1]]);
    found.total.push(mass > 0 ? loss / mass : null);
    for (const name of names) found[name].push(average(windows[name]));
    windows.members.forEach((values, k) => found.members[k].push(average(values)));
  }
  found.width = total ? windows.rows[total - 1] * every : 0;
  return found;
}

/** Return the loss of another model between these times: the mean of its windows, or the last one if none has ended. */
export function lossAtTimes(times, windows) {
  let k = 0;
  let last = null;
  return times.map((time) => {
    let [sum, mass] = [0, 0];
    for (; k < windows.time.length && windows.time[k] <= time; k += 1) {
      if (windows.loss[k] === null) continue;
      sum += windows.loss[k] * windows.mass[k];
      mass += windows.mass[k];
    }
    if (mass > 0) last = sum / mass;
    return last;
  });
}

/** Return the mean loss of the windows that ended since a time. */
export function lossSince(windows, time) {
  let [sum, mass] = [0, 0];
  windows.time.forEach((ended, k) => {
    if (ended < time || windows.loss[k] === null) return;
    sum += windows.loss[k] * windows.mass[k];
    mass += windows.mass[k];
  });
  return mass > 0 ? sum / mass : null;
}

/** All panels of one model. */
export class ModelPanels {
  constructor() {
    this.byTime = false;
    const loss = (options) => new ChartPanel({ x: ROWS, ...options });
    this.loss = loss({
      id: "loss",
      wide: true,
      height: 290,
      title: "Progressive loss",
      about: "Every row is predicted before it is learned from.",
      y: { format: format.mean },
    });
    this.marks = make("ul", { class: "marks" });
    this.loss.element.append(this.marks);
    this.#axisSwitch();
    this.flow = new ChartPanel({
      id: "flow",
      title: "Label flow",
      about: "Predictions that wait for a label, and labels that came.",
      x: TIME,
      y: { format: format.rate, zero: true },
    });
    this.flowFacts = make("dl", { class: "facts" });
    this.flow.empty.before(this.flowFacts);
    this.calibration = loss({
      id: "calibration",
      title: "Mean prediction beside mean label",
      about: "The two lines meet if predictions are right on average.",
      y: { format: format.mean },
    });
    this.reliability = new ChartPanel({
      id: "reliability",
      title: "Calibration",
      about: "How often it happened, by what was predicted.",
      x: { label: "mean prediction", format: (value) => value.toFixed(2), min: 0, max: 1 },
      y: { format: (value) => (value === null ? "–" : value.toFixed(2)), min: 0, max: 1 },
    });
    this.unseen = loss({
      id: "features",
      title: "Features",
      about: "",
      y: { format: format.percent, zero: true },
    });
    this.weights = new TablePanel({
      id: "weights",
      title: "Weights that moved most",
      about: "",
    });
    this.members = new TablePanel({
      id: "members",
      title: "Members",
      about: "Learners that run side by side, and their weight in the prediction.",
    });
    this.shadows = new TablePanel({
      id: "shadows",
      wide: true,
      title: "Shadow beside live",
      about: "Shadows learn from the same rows; their predictions are not served.",
    });
  }

  #axisSwitch() {
    const button = make("button", { type: "button", class: "quiet small", text: "By time" });
    button.setAttribute("aria-label", "Draw the charts of this model by time");
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      this.byTime = !this.byTime;
      button.setAttribute("aria-pressed", String(this.byTime));
      for (const panel of [this.loss, this.calibration, this.unseen]) panel.x = this.byTime ? TIME : ROWS;
      if (this.state) this.show(this.state);
    });
    this.loss.tools.prepend(button);
  }

  /** Show the state of a model: `{ model, shadows, live, history, status }`. */
  show(state) {
    this.state = state;
    const { model } = state;
    const windows = mergedWindows(model.metrics.windows);
    const xs = this.byTime ? windows.time : windows.rows;
    this.#showLoss(state, windows, xs);
    this.#showFlow(state);
    this.#showCalibration(model, windows, xs);
    this.#showFeatures(model, windows, xs);
    this.#showWeights(model);
    this.#showMembers(model, windows);
    this.#showShadows(state);
  }

  #showLoss({ model, shadows }, windows, xs) {
    const { metrics } = model;
    const means = windows.width ? ` Means of ${format.count(windows.width)} rows.` : "";
    this.loss.setTitle(`Progressive ${model.loss.toLowerCase()}`, `Every row is predicted before it is learned from.${means}`);
    const ceiling = 2 * Math.max(...windows.loss, ...windows.constant_loss); // a shadow that diverged does not hide the rest
    const lines = [
      ...windows.members.map((values, k) => ({
        name: `Member ${k + 1}`, values, color: "--faint", width: 1, group: "Members", guide: true,
      })),
      { name: "Best constant", values: windows.constant_loss, color: "--gray", width: 1.5 },
      ...shadows.map((shadow, k) => {
        const values = lossAtTimes(windows.time, shadow.metrics.windows);
        const guide = Math.max(...values) > ceiling;
        return { name: `Shadow ${shadow.name}`, values, color: ["--violet", "--teal"][k % 2], width: 2, guide };
      }),
      { name: "All rows so far", values: windows.total, color: "--blue", width: 1.5, dash: [5, 4] },
      { name: "Loss", values: windows.loss, color: "--blue", width: 2.25 },
    ];
    const marks = metrics.drift.map((mark) => ({ at: this.byTime ? mark.time : mark.rows, text: describe(mark) }));
    const empty = metrics.rows
      ? `${format.count(metrics.rows)} rows learned; the first window ends after 100.`
      : "No rows learned yet. POST a row to models/NAME/learn, and the loss appears here.";
    this.loss.show(xs, lines, { marks, empty });
    showTexts(this.marks, marks.slice(-MARKS_LISTED).reverse().map((mark) => mark.text));
  }

  #showFlow({ model, history }) {
    const { outcomes, delay_p50: p50, delay_p99: p99 } = model.metrics.label_flow;
    facts(this.flowFacts, [
      ["Predicted", format.count(outcomes.predicted ?? 0)],
      ["Labeled", format.count(outcomes.labeled ?? 0)],
      ["Pending", format.count(model.pending)],
      ["Expired", format.count(outcomes.expired ?? 0)],
      ["Delay p50", format.duration(p50)],
      ["Delay p99", format.duration(p99)],
    ]);
    const { model: samples } = history;
    const lines = [
      { name: "Predicted", values: samples.predicted ?? [], color: "--blue" },
      { name: "Labeled", values: samples.labeled ?? [], color: "--green" },
      { name: "Expired", values: samples.expired ?? [], color: "--orange", width: 1.5 },
    ];
    const used = (outcomes.predicted ?? 0) > 0;
    this.flow.show(used ? samples.time ?? [] : [], lines, {
      empty: "No predictions with an id yet. Send an id to predict, and the label with the same id to learn.",
    });
  }

  #showCalibration(model, windows, xs) {
    const several = model.labels !== null && model.labels.length > 2;
    const none = several ? "A model of several classes has no mean prediction." : "Appears with the first 100 rows.";
    const lines = [
      { name: "Mean label", values: windows.label, color: "--orange" },
      { name: "Mean prediction", values: windows.prediction, color: "--blue" },
    ];
    this.calibration.show(several ? [] : xs, lines, { empty: none });
    const bins = model.metrics.calibration;
    this.reliability.show(
      bins.map((bin) => bin.predicted),
      [
        { name: "Right on average", values: bins.map((bin) => bin.predicted), color: "--gray", width: 1, dash: [4, 4] },
        { name: "Share that happened", values: bins.map((bin) => bin.happened), color: "--blue" },
      ],
      { empty: model.labels?.length === 2 ? "Appears with the first rows." : "Only models of two classes with probabilities have a calibration." },
    );
  }

  #showFeatures(model, windows, xs) {
    const share = model.features ? model.nonzeros / model.features : null;
    const nonzero = !model.nonzeros ? "" : `, ${format.count(model.nonzeros)} with a weight (${format.percent(share)})`;
    this.unseen.setTitle("Features", `${format.count(model.features)} features seen${nonzero}. Share of values whose feature was new:`);
    const lines = [{ name: "Unseen features", values: windows.unseen, color: "--violet", fill: "--violet-fill" }];
    this.unseen.show(xs, lines, { empty: "Appears with the first 100 rows." });
  }

  #showWeights(model) {
    const past = model.moved_seconds ? `in the last ${format.duration(Math.max(1, Math.round(model.moved_seconds)))}` : "lately";
    this.weights.setTitle("Weights that moved most", `Change of the weight ${past}, by feature.`);
    const most = Math.max(...model.moved.map((one) => Math.abs(one.change ?? 0)), 0);
    const rows = model.moved.map((one) => [
      { text: one.name, class: "name", title: one.name },
      { text: format.mean(one.weight), class: "number" },
      { text: format.signed(one.change), class: "number" },
      bar(one.change ?? 0, most),
    ]);
    this.weights.show(["Feature", "Weight", "Change", ""], rows, "No weight has moved lately.");
  }

  #showMembers(model, windows) {
    const { members } = model.metrics;
    this.members.element.hidden = members.length === 0;
    const rows = members.map((one, k) => [
      { text: `${k + 1}`, class: "" },
      { text: one.update, class: "name", title: one.update },
      { text: format.mean(one.weight), class: "number" },
      { text: format.mean(model.rounds ? one.loss : null), class: "number" },
      { text: format.mean(windows.members[k]?.at(-1) ?? null), class: "number" },
    ]);
    this.members.show(["Member", "Step size", "Weight", "Loss of all rows", "Loss now"], rows, "The model is a single learner.");
  }

  #showShadows({ model, shadows }) {
    this.shadows.element.hidden = shadows.length === 0;
    const rows = shadows.map((one) => {
      const { windows, loss, rows: learned } = one.metrics;
      const live = windows.time.length ? lossSince(model.metrics.windows, windows.time[0]) : null;
      const difference = live === null || loss === null ? null : loss - live;
      const verdict = difference === null || difference === 0 ? "" : difference < 0 ? "good" : "bad";
      return [
        { text: one.name, class: "name", title: one.update },
        { text: format.count(learned), class: "number" },
        { text: format.mean(loss), class: "number" },
        { text: format.mean(live), class: "number" },
        { text: format.signed(difference), class: `number ${verdict}` },
        { text: format.count(one.shadow_errors), class: "number" },
      ];
    });
    this.shadows.show(["Shadow", "Rows", "Loss", `Loss of ${model.name} since then`, "Difference", "Records refused"], rows, "");
  }
}

function describe(mark) {
  return `The loss changed at row ${format.count(mark.rows)} (${format.moment(mark.time)}): ${format.mean(mark.before)} to ${format.mean(mark.after)}.`;
}

/** A bar from the middle, to the left or to the right. */
function bar(change, most) {
  const fill = make("span", { class: change < 0 ? "fill negative" : "fill" });
  fill.style.width = `${most > 0 ? (50 * Math.abs(change)) / most : 0}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** Show names and values in a list of definitions. */
export function facts(list, pairs) {
  const key = pairs.map(([name]) => name).join("|");
  if (list.dataset.key !== key) {
    list.dataset.key = key;
    list.replaceChildren(...pairs.map(([name]) => make("div", {}, make("dt", { text: name }), make("dd"))));
  }
  pairs.forEach(([, value], k) => {
    const place = list.children[k].children[1];
    setText(place, value);
  });
}
