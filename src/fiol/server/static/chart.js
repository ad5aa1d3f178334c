// A line chart with its legend, its table for readers of screens, and keys to read values.

import { make, resize, setAttribute, setText, Table } from "./dom.js";
import { axisTime } from "./format.js";
import { color } from "./theme.js";

/** Rows of the table under a chart: evenly spaced points, the newest first. */
const TABLE_ROWS = 10;
const readout = document.getElementById("readout");
const charts = new Set();
let made = 0;

/** Draw all charts again, in the colors of the present theme. */
export function redrawCharts() {
  for (const chart of charts) chart.plot?.redraw(false, true);
}

/** A section of the page with a heading. */
export class Panel {
  constructor({ title, about, wide = false, id }) {
    made += 1;
    this.heading = make("h2", { id: `panel-${made}`, text: title });
    this.about = make("p", { class: "about", text: about });
    this.tools = make("div", { class: "tools" });
    const head = make("div", { class: "panel-head" }, make("div", {}, this.heading, this.about), this.tools);
    this.element = make(
      "section",
      { class: wide ? "panel wide" : "panel", "aria-labelledby": `panel-${made}`, id },
      head,
    );
    this.empty = make("p", { class: "empty", hidden: true });
    this.element.append(this.empty);
  }

  /** Change the title, here and in the names that screen readers use, and the line under it. */
  setTitle(title, about) {
    setText(this.heading, title);
    setText(this.about, about);
  }

  /** Show why there is nothing to show; null if there is. */
  setEmpty(reason) {
    this.empty.hidden = reason === null;
    setText(this.empty, reason ?? "");
    this.element.classList.toggle("is-empty", reason !== null);
  }
}

/**
 * A panel with lines over x.
 *
 * `x` is `{ label, format, tick, time, min, max }`, `y` is `{ format, zero, log, min, max }`: `zero` begins the axis at 0, `log` makes it
 * logarithmic, `min` and `max` fix it.
 */
export class ChartPanel extends Panel {
  constructor({ x, y, height = 210, ...options }) {
    super(options);
    this.x = x;
    this.y = y;
    this.hidden = new Set();
    this.legend = make("ul", { class: "legend" });
    this.host = make("div", { class: "chart", tabindex: "0", role: "img" });
    this.host.style.minHeight = `${height}px`;
    this.table = new Table("");
    const data = make("div", { class: "data visually-hidden", id: `data-${made}` }, this.table.element);
    this.toggle = make("button", { type: "button", class: "quiet small", text: "Table", "aria-expanded": "false" });
    this.toggle.setAttribute("aria-controls", data.id);
    this.toggle.addEventListener("click", () => {
      const hidden = data.classList.toggle("visually-hidden");
      this.toggle.setAttribute("aria-expanded", String(!hidden));
    });
    this.tools.append(this.toggle);
    this.setTitle(options.title, options.about);
    this.element.append(this.legend, this.host, data);
    this.host.addEventListener("keydown", (event) => this.#key(event));
    this.host.addEventListener("blur", () => this.#pointAt(null));
    new ResizeObserver(() => this.#fit()).observe(this.host);
    charts.add(this);
  }

  setTitle(title, about) {
    super.setTitle(title, about);
    setText(this.table.caption, `${title}: values`);
    setAttribute(this.toggle, "aria-label", `Table of ${title}`);
  }

  /**
   * Show lines: `{ name, values, color, width, dash, fill, group, guide }`.
   *
   * Lines of a group share an entry of the legend. A `guide` does not stretch the axis. `marks` are `{ at, text }`.
   */
  show(xs, lines, { marks = [], empty = "Nothing yet." } = {}) {
    const nothing = xs.length === 0 || lines.every((line) => line.values.every((value) => value === null));
    this.setEmpty(nothing ? empty : null);
    this.xs = xs;
    this.lines = lines;
    this.marks = marks;
    if (nothing) return;
    const key = JSON.stringify([this.x.label, lines.map((line) => [line.name, line.color, line.group])]);
    if (key !== this.key) this.#build(key);
    lines.forEach((line, k) => {
      const shown = !this.hidden.has(line.group ?? line.name);
      if (this.plot.series[k + 1].show !== shown) this.plot.setSeries(k + 1, { show: shown });
    });
    this.plot.setData([xs, ...lines.map((line) => line.values)]);
    this.#showLegend(this.plot.cursor.idx);
    this.#showTable();
    this.#fit();
    setAttribute(this.host, "aria-label", this.#summary());
  }

  #build(key) {
    this.plot?.destroy();
    this.key = key;
    const ink = () => color("--muted");
    const grid = { stroke: () => color("--grid"), width: 1 };
    const decades = (_, splits) => splits.map((at) => (Number.isInteger(Math.log10(at)) ? at : null));
    const font = "12px system-ui, sans-serif";
    const span = () => this.xs[this.xs.length - 1] - this.xs[0];
    const options = {
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 7 }, y: false },
      padding: [8, 18, 0, 0],
      scales: {
        x: { time: Boolean(this.x.time), range: (_, min, max) => this.#xRange(min, max) },
        y: { distr: this.y.log ? 3 : 1, range: (_, min, max) => this.#yRange(min, max) },
      },
      axes: [
        {
          stroke: ink, grid, font, ticks: { show: false }, space: this.x.time ? 70 : 60, size: 28, gap: 6,
          label: this.x.label, labelSize: 18, labelGap: 0, labelFont: font,
          values: (_, splits) => splits.map((at) => (this.x.time ? axisTime(at, span()) : (this.x.tick ?? this.x.format)(at))),
        },
        {
          stroke: ink, font, ticks: { show: false }, space: 36,
          grid: this.y.log ? { ...grid, filter: decades } : grid,
          size: 62, gap: 8,
          values: (_, splits) => splits.map((at) => (at === null ? "" : this.y.format(at))),
        },
      ],
      series: [{}, ...this.lines.map(lineOptions)],
      hooks: {
        draw: [(plot) => this.#drawMarks(plot)],
        setCursor: [(plot) => this.#showLegend(plot.cursor.idx)],
      },
    };
    this.host.replaceChildren();
    this.#buildLegend();
    const data = [this.xs, ...this.lines.map((line) => line.values)];
    this.plot = new globalThis.uPlot({ ...options, ...this.#size() }, data, this.host);
  }

  #xRange(min, max) {
    if (this.x.min !== undefined) return [this.x.min, this.x.max];
    if (min === null) return [0, 1];
    return min === max ? [min - 1, max + 1] : [min, max];
  }

  #yRange(min, max) {
    if (this.y.min !== undefined) return [this.y.min, this.y.max];
    if (min === null || max === null) return this.y.log ? [1e-3, 1] : [0, 1];
    if (this.y.log) return [10 ** Math.floor(Math.log10(min)), 10 ** Math.ceil(Math.log10(max * 1.01))];
    if (this.y.zero) return [0, max > 0 ? max * 1.12 : 1];
    const pad = (max - min || Math.abs(max) || 1) * 0.1;
    return [min >= 0 ? Math.max(0, min - pad) : min - pad, max + pad];
  }

  #drawMarks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color("--mark");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const { at } of this.marks) {
      const left = Math.round(plot.valToPos(at, "x", true));
      if (left < bbox.left || left > bbox.left + bbox.width) continue;
      const size = 4 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(left - size, bbox.top);
      ctx.lineTo(left + size, bbox.top);
      ctx.lineTo(left, bbox.top + 1.6 * size);
      ctx.fill();
    }
    ctx.restore();
  }

  // --- the legend -----------------------------------------------------------------------------

  #entries() {
    const found = new Map();
    this.lines.forEach((line, k) => {
      const name = line.group ?? line.name;
      if (!found.has(name)) found.set(name, []);
      found.get(name).push(k);
    });
    return [...found];
  }

  #buildLegend() {
    this.legend.replaceChildren();
    for (const [name, places] of this.#entries()) {
      const line = this.lines[places[0]];
      const swatch = make("span", { class: `swatch${line.dash ? " dashed" : ""}` });
      swatch.style.setProperty("--swatch", `var(${line.color})`);
      const text = places.length > 1 ? `${name} (${places.length})` : name;
      const button = make(
        "button",
        { type: "button", "aria-pressed": String(!this.hidden.has(name)) },
        swatch,
        make("span", { text }),
        make("output"),
      );
      button.addEventListener("click", () => {
        if (!this.hidden.delete(name)) this.hidden.add(name);
        button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
        this.show(this.xs, this.lines, { marks: this.marks });
      });
      this.legend.append(make("li", {}, button));
    }
  }

  #showLegend(at) {
    if (!this.lines || this.legend.children.length === 0) return;
    this.#entries().forEach(([, places], k) => {
      const output = this.legend.children[k]?.querySelector("output");
      if (!output) return;
      if (places.length > 1) return;
      const { values } = this.lines[places[0]];
      setText(output, this.y.format(at === null || at === undefined ? lastOf(values) : values[at] ?? null));
    });
  }

  // --- without eyes, without a mouse ----------------------------------------------------------

  #showTable() {
    const count = Math.min(TABLE_ROWS, this.xs.length);
    const places = Array.from({ length: count }, (_, k) =>
      Math.round(((this.xs.length - 1) * (count - 1 - k)) / Math.max(1, count - 1)),
    );
    const rows = places.map((at) => [
      this.x.format(this.xs[at]),
      ...this.lines.map((line) => this.y.format(line.values[at] ?? null)),
    ]);
    this.table.show([this.x.label, ...this.lines.map((line) => line.name)], rows);
  }

  #summary() {
    const now = this.lines
      .filter((line) => !line.group)
      .map((line) => `${line.name} ${this.y.format(lastOf(line.values))}`);
    const marks = this.marks.length ? `; marks of drift: ${this.marks.length}` : "";
    return `${this.heading.textContent}: ${now.join(", ")}${marks}. Arrow keys read values; a table follows.`;
  }

  #key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !this.plot || !this.xs?.length) return;
    event.preventDefault();
    const last = this.xs.length - 1;
    const from = this.plot.cursor.idx ?? last;
    this.#pointAt(Math.min(last, Math.max(0, from + steps[event.key])));
  }

  #pointAt(at) {
    if (!this.plot) return;
    if (at === null) {
      this.plot.setCursor({ left: -10, top: -10 });
      return;
    }
    this.plot.setCursor({ left: this.plot.valToPos(this.xs[at], "x"), top: 10 });
    const values = this.lines
      .filter((line) => !line.group)
      .map((line) => `${line.name} ${this.y.format(line.values[at] ?? null)}`);
    setText(readout, `${this.x.label} ${this.x.format(this.xs[at])}: ${values.join(", ")}`);
  }

  #size() {
    return { width: Math.max(this.host.clientWidth, 200), height: Math.max(this.host.clientHeight, 100) };
  }

  #fit() {
    const size = this.#size();
    if (this.plot && (size.width !== this.plot.width || size.height !== this.plot.height)) this.plot.setSize(size);
  }
}

/** Panels whose head has a table only. */
export class TablePanel extends Panel {
  constructor(options) {
    super(options);
    this.table = new Table(options.title);
    this.element.append(make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": options.title }, this.table.element));
  }

  /** Show rows under headings, or why there are none. */
  show(headings, rows, empty) {
    this.setEmpty(rows.length ? null : empty);
    this.table.show(headings, rows);
  }
}

function lineOptions(line) {
  return {
    label: line.name,
    stroke: () => color(line.color),
    width: line.width ?? 2,
    dash: line.dash,
    fill: line.fill ? () => color(line.fill) : undefined,
    auto: !line.guide,
    points: { show: (plot, k) => plot.data[k].filter((value) => value !== null).length < 3, size: 6 },
    alpha: line.alpha ?? 1,
  };
}

function lastOf(values) {
  for (let k = values.length - 1; k >= 0; k -= 1) if (values[k] !== null && values[k] !== undefined) return values[k];
  return null;
}

/** Make the list `parent` show texts. */
export function showTexts(parent, texts) {
  resize(parent, texts.length, () => make("li"));
  texts.forEach((text, k) => setText(parent.children[k], text));
}
