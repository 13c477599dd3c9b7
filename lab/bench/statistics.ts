export interface Interval {
  median: number;
  low: number;
  high: number;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle - 1)] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
}

/** With fewer rounds, the interval is from the lowest to the highest. */
const ROUNDS_FOR_INTERVAL = 10;

/**
 * The median with its interval. From {@link ROUNDS_FOR_INTERVAL} on, that is from the second lowest to the second
 * highest, which holds the true median with a confidence of 97.9 % or more (by the binomial distribution).
 */
export function medianWithInterval(values: readonly number[]): Interval {
  const sorted = values.toSorted((a, b) => a - b);
  const leftOut = values.length >= ROUNDS_FOR_INTERVAL ? 1 : 0;
  return { median: median(values), low: sorted[leftOut] ?? NaN, high: sorted.at(-1 - leftOut) ?? NaN };
}
