// Numbers, durations, sizes and times as text.

const DASH = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayTime = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const minus = (text) => text.replace("-", "\u2212");
const missing = (value) => value === null || value === undefined || Number.isNaN(value);

/** 12345 as "12,345". */
export const count = (value) => (missing(value) ? DASH : whole.format(value));

/** 1234567 as "1.23M": for axes and tiles. */
export function short(value) {
  if (missing(value)) return DASH;
  const size = Math.abs(value);
  for (const [unit, sign] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= unit) return `${precise.format(value / (sign === "k" ? 1e3 : unit))}${sign}`;
  }
  return number(value);
}

/** 2000 as "2k": for axes. */
export const tick = (value) => (Math.abs(value) >= 1000 && Math.abs(value) < 1e4 ? `${precise.format(value / 1e3)}k` : short(value));

/** Three significant digits. */
export function number(value) {
  if (missing(value)) return DASH;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2);
  return minus(size >= 1000 ? whole.format(value) : precise.format(value));
}

/** A loss, or another mean: as many decimals wherever it is shown. */
export function mean(value) {
  if (missing(value)) return DASH;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return size >= 100 ? number(value) : minus(value.toFixed(size >= 10 ? 2 : 3));
}

/** With its sign, for differences. */
export function signed(value) {
  if (missing(value)) return DASH;
  const size = Math.abs(value);
  return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${size > 1e-5 && size < 1e-3 ? size.toFixed(5) : mean(size)}`;
}

/** 0.123 as "12.3 %". */
export function percent(value) {
  if (missing(value)) return DASH;
  const size = Math.abs(value) * 100;
  if (size > 0 && size < 0.01) return "< 0.01 %";
  return `${precise.format(value * 100)} %`;
}

/** Per second. */
export const rate = (value) => (missing(value) ? DASH : `${short(Math.abs(value) < 10 ? Math.round(value * 10) / 10 : value)}/s`);

/** Seconds as "3.2 ms" or "4 min". */
export function duration(value) {
  if (missing(value)) return DASH;
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${precise.format(value * 1e6)} µs`;
  if (size < 1) return `${precise.format(value * 1e3)} ms`;
  if (size < 120) return `${precise.format(value)} s`;
  if (size < 7200) return `${precise.format(value / 60)} min`;
  if (size < 172800) return `${precise.format(value / 3600)} h`;
  return `${precise.format(value / 86400)} d`;
}

/** 123456 as "121 kB". */
export function bytes(value) {
  if (missing(value)) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0;
  let rest = value;
  while (rest >= 1000 && k < units.length - 1) {
    rest /= 1000;
    k += 1;
  }
  return `${precise.format(rest)} ${units[k]}`;
}

/** A moment: the clock for today, else with the day. */
export function moment(seconds) {
  if (missing(seconds)) return DASH;
  const then = new Date(seconds * 1000);
  return then.toDateString() === new Date().toDateString() ? clockTime.format(then) : dayTime.format(then);
}

/** How long ago a moment was. */
export function ago(seconds, now) {
  if (missing(seconds)) return DASH;
  const past = Math.max(0, now - seconds);
  if (past < 2) return "now";
  const unit = [86400, 3600, 60, 1].find((one) => past >= 2 * one);
  return `${duration(Math.floor(past / unit) * unit)} ago`;
}

/** A time of an axis that spans so many seconds. */
export function axisTime(seconds, span) {
  const then = new Date(seconds * 1000);
  if (span < 300) return clockTime.format(then);
  return span < 2 * 86400 ? minuteTime.format(then) : day.format(then);
}
