import { ConnectionLost } from '../../test/support/http-client.ts';
import type { Exchange } from './exchange.ts';

/** True for a served list or update. */
export function succeeded({ outcome }: Pick<Exchange, 'outcome'>): boolean {
  return !(outcome instanceof ConnectionLost) && (outcome.status === 200 || outcome.status === 304);
}

/** @param share 0.99 for the 99th percentile. @returns NaN when there are no samples */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}
