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

/** @param share 0.99 for the time that one request in a hundred exceeds */
export function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))] ?? NaN;
}

/** The median with the lowest and the highest: of five rounds or fewer, a bootstrap yields no narrower interval. */
export function medianWithInterval(values: readonly number[]): Interval {
  return { median: median(values), low: Math.min(...values), high: Math.max(...values) };
}
