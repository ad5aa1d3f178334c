// The dashboard: receives events, and shows them in panels.

import { redrawCharts } from "./chart.js";
import { make, resize, setAttribute, setText } from "./dom.js";
import * as format from "./format.js";
import { facts, ModelPanels } from "./model_panels.js";
import { addSample } from "./samples.js";
import { Stream } from "./server.js";
import { ServerPanels } from "./server_panels.js";
import { themeSwitch } from "./theme.js";

const STATES = { live: "Live", connecting: "Reconnecting", locked: "Needs a token" };

/** Elements that are hidden while there is no model. */
const OF_A_MODEL = ["tiles", "loss", "flow", "calibration", "reliability", "features", "weights", "members", "shadows", "snapshots"];

const part = (id) => document.getElementById(id);
const model = new ModelPanels();
const server = new ServerPanels((text) => setText(part("readout"), text));
let history = { server: {}, model: {} };
let status = null;
let drawing = false;

const stream = new Stream({
  history(received) {
    history = received;
  },
  status(received) {
    status = received;
    for (const kind of ["server", "model"]) addSample(history[kind], received.sample[kind]);
    draw();
  },
  state(name) {
    const pill = part("connection");
    setAttribute(pill, "data-state", name);
    setText(pill, status === null && name === "connecting" ? "Connecting" : STATES[name]);
    if (name === "locked") showAlert("This server needs a token.", { text: "Enter a token", act: () => stream.open(shownModel()) });
  },
});

/** Draw with the next frame; nothing while the page is hidden. */
function draw() {
  if (drawing || status === null || document.hidden) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    show();
  });
}

function show() {
  const shown = status.models.find((one) => one.name === status.shown) ?? null;
  const shadows = status.models.filter((one) => one.shadow_of !== null && one.shadow_of === shown?.name);
  const state = { model: shown, shadows, history, status };
  showModels(shown);
  showTitle(shown);
  showTiles(shown);
  showAlert(status.journal.failed ? `The journal cannot be written: ${status.journal.failed}` : "");
  if (shown) model.show(state);
  server.show(state);
  const uptime = format.duration(status.time - status.started);
  setText(part("about-server"), `fiol ${status.version} · up ${uptime} · ${status.models.length === 1 ? "1 model" : `${format.count(status.models.length)} models`}`);
  document.documentElement.dataset.ready = "true";
}

function showModels(shown) {
  const nav = part("models");
  resize(nav, status.models.length, () => make("a"));
  status.models.forEach((one, k) => {
    const link = nav.children[k];
    setText(link, one.shadow_of === null ? one.name : `${one.name} (shadow)`);
    setAttribute(link, "href", `#${encodeURIComponent(one.name)}`);
    if (one === shown) setAttribute(link, "aria-current", "page");
    else link.removeAttribute("aria-current");
  });
}

function showTitle(shown) {
  setText(part("model-name"), shown?.name ?? "No model yet");
  document.title = shown ? `${shown.name} · fiol serve` : "fiol serve";
  const about = shown
    ? [shown.update, shown.labels ? `predicts ${shown.labels.slice(0, 4).join(", ")}${shown.labels.length > 4 ? ", …" : ""}` : "predicts numbers",
       shown.shadow_of ? `shadow of ${shown.shadow_of}` : null]
    : ["Add one: PUT a specification to models/NAME."];
  setText(part("model-about"), about.filter((text) => text !== null).join(" · "));
  for (const id of OF_A_MODEL) part(id).hidden = shown === null;
}

function showTiles(shown) {
  if (!shown) return;
  const { metrics } = shown;
  const { recent } = metrics;
  const gain = metrics.constant_loss && recent.loss !== null ? 1 - recent.loss / metrics.constant_loss : null;
  const sample = status.sample.server ?? {};
  const against = gain === null ? "no constant to compare with yet" : `${format.percent(Math.abs(gain))} ${gain >= 0 ? "below" : "above"} the best constant`;
  const tiles = [
    [`${shown.loss} now`, format.mean(recent.loss), against],
    ["Rows learned", format.short(metrics.rows), `${format.rate(status.sample.model?.learned ?? 0)} in the last seconds`],
    ["Labels pending", format.short(shown.pending), `half of the labels within ${format.duration(metrics.label_flow.delay_p50)}`],
    ["Requests", format.rate(sample.requests ?? 0), `${format.rate(sample.errors ?? 0)} refused`],
    ["Predict p99", format.duration(sample.predict_p99), `p50 ${format.duration(sample.predict_p50)}`],
    ["Predictions lag", `${format.short(shown.lag_rounds)} rows`, `round ${format.count(shown.served_round)} is served`],
  ];
  const list = part("tiles");
  facts(list, tiles);
  tiles.forEach(([, , note], k) => {
    const tile = list.children[k];
    if (tile.children.length < 3) tile.append(make("dd", { class: "note" }));
    setText(tile.children[2], metrics.label_flow.delay_p50 === null && k === 2 ? "no labels by id yet" : note);
  });
}

function showAlert(text, action = null) {
  const alert = part("alert");
  if (alert.dataset.text === text) return;
  alert.dataset.text = text;
  alert.hidden = text === "";
  alert.replaceChildren(text);
  if (action) alert.append(" ", make("button", { type: "button", class: "small", text: action.text, onclick: action.act }));
}

function shownModel() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

part("panels").append(
  ...[
    model.loss, model.shadows, model.flow, model.calibration, model.reliability, server.requests, server.durations,
    server.journal, server.queue, model.unseen, model.weights, model.members, server.snapshots, server.routes, server.errors,
  ].map((panel) => panel.element),
);
themeSwitch(part("theme"), () => redrawCharts());
addEventListener("hashchange", () => {
  if (location.hash !== "#content") stream.open(shownModel());
});
document.addEventListener("visibilitychange", draw);
stream.open(location.hash === "#content" ? "" : shownModel());
