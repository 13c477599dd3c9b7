import { ConnectionLost } from '../test/support/http-client.ts';
import type { Exchange, Target } from './exchange.ts';
import type { Load } from './load.ts';

const HOPELESS_AFTER_MS = 10_000;

/** A list or an update that was served. */
export function succeeded({ outcome }: Exchange): boolean {
  return !(outcome instanceof ConnectionLost) && (outcome.status === 200 || outcome.status === 304);
}

/**
 * How long after this call every target has served a list and an update that were sent after it.
 *
 * @returns milliseconds; infinite when that takes more than 10 s
 */
export function recovery(load: Load, targets: readonly Target[]): Promise<number> {
  const since = performance.now();
  const missing = new Set(targets.flatMap(({ name }) => [`${name} list`, `${name} update`]));
  return new Promise((resolve) => {
    const hopeless = setTimeout(resolve, HOPELESS_AFTER_MS, Infinity);
    load.onExchange((exchange) => {
      if (exchange.start < since || missing.size === 0 || !succeeded(exchange)) return;
      missing.delete(`${exchange.target.name} ${exchange.operation.kind}`);
      if (missing.size > 0) return;
      clearTimeout(hopeless);
      resolve(exchange.end - since);
    });
  });
}

/** The durations of a load's exchanges since the last {@link Durations.begin}. */
export class Durations {
  private samples: number[] = [];
  unserved = 0;

  constructor(load: Load) {
    load.onExchange((exchange) => {
      this.samples.push(exchange.end - exchange.start);
      if (!succeeded(exchange)) this.unserved++;
    });
  }

  begin(): void {
    this.samples = [];
    this.unserved = 0;
  }

  get count(): number {
    return this.samples.length;
  }

  /** @param share 0.99 for the 99th percentile */
  quantile(share: number): number {
    return quantile(this.samples, share);
  }
}

/** @returns NaN when there are no samples */
export function quantile(samples: readonly number[], share: number): number {
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Looks at a figure ten times a second and keeps the highest. */
export class Peak {
  private highest = -Infinity;
  private readonly timer: NodeJS.Timeout;

  constructor(look: () => number) {
    this.timer = setInterval(() => {
      this.highest = Math.max(this.highest, look());
    }, 100).unref();
  }

  /** The highest since the last call. */
  take(): number {
    const { highest } = this;
    this.highest = -Infinity;
    return highest;
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
