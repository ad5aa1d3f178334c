// Figures of the last minutes, sampled once a second.

/** Samples that are kept: fifteen minutes, however long the page is open. */
export const SAMPLES_KEPT = 900;

/** Add a sample `{ time, ... }` to columns by name, unless the newest is of the same time. */
export function addSample(columns, sample) {
  if (!sample || columns.time?.at(-1) === sample.time) return;
  const size = columns.time?.length ?? 0;
  for (const [name, value] of Object.entries(sample)) {
    columns[name] ??= Array(size).fill(null);
    columns[name].push(value);
    if (columns[name].length > SAMPLES_KEPT) columns[name].splice(0, columns[name].length - SAMPLES_KEPT);
  }
}
