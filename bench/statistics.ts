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

/** The median with the lowest and the highest: of five rounds or fewer, a bootstrap yields no narrower interval. */
export function medianWithInterval(values: readonly number[]): Interval {
  return { median: median(values), low: Math.min(...values), high: Math.max(...values) };
}
