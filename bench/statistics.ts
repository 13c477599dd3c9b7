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

/** The median and its 95 % confidence interval by the percentile bootstrap. */
export function medianWithInterval(values: readonly number[], resamples = 5_000): Interval {
  const medians = Array.from({ length: resamples }, () =>
    median(values.map(() => values[Math.floor(Math.random() * values.length)] ?? NaN)),
  ).sort((a, b) => a - b);
  const at = (share: number) => medians[Math.min(resamples - 1, Math.floor(share * resamples))] ?? NaN;
  return { median: median(values), low: at(0.025), high: at(0.975) };
}
