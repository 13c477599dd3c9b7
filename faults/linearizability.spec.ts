import { describe, expect, it } from 'vitest';
import { RegisterHistory, type WriteOutcome } from './linearizability.ts';
import { SeededRandom } from './seeded-random.ts';

interface Operation {
  readonly kind: 'write' | 'read';
  readonly value: number;
  readonly start: number;
  readonly end: number;
  readonly outcome: WriteOutcome;
}

const INITIAL = 0;

/** Tries every order that real time allows: slow, and too simple to be wrong. */
function hasExplanation(operations: readonly Operation[], held = INITIAL): boolean {
  if (operations.every((operation) => operation.outcome !== 'done')) return true;
  return operations.some((operation) => {
    if (operation.outcome === 'refused') return false;
    const rest = operations.filter((other) => other !== operation);
    const mustFollow = rest.some((other) => other.outcome === 'done' && other.end < operation.start);
    if (mustFollow || (operation.kind === 'read' && operation.value !== held)) return false;
    return hasExplanation(rest, operation.value);
  });
}

function isAccepted(operations: readonly Operation[]): boolean {
  const history = new RegisterHistory(INITIAL);
  for (const { kind, value, start, end, outcome } of operations) {
    if (kind === 'read') history.read(value, start, end);
    else history.write(value, start, end, outcome);
  }
  return history.violations().length === 0;
}

/** Runs a real register at random instants inside random intervals, then, mostly, spoils one read. */
function randomHistory(random: SeededRandom): Operation[] {
  const intervals = Array.from({ length: random.between(1, 7) }, () => {
    const start = random.between(0, 12);
    const length = random.between(0, 6);
    return { start, end: start + length, instant: start + random.next() * length };
  });
  let held = INITIAL;
  let written = 0;
  const operations = intervals
    .sort((one, other) => one.instant - other.instant)
    .map(({ start, end }): Operation => {
      if (random.chance(0.5)) return { kind: 'read', value: held, start, end, outcome: 'done' };
      const outcome = random.pick(['done', 'done', 'done', 'unknown', 'refused'] as const);
      const value = ++written;
      if (outcome === 'done' || (outcome === 'unknown' && random.chance(0.5))) held = value;
      return { kind: 'write', value, start, end, outcome };
    });
  const reads = operations.filter((operation) => operation.kind === 'read');
  if (reads.length === 0 || random.chance(0.3)) return operations;
  const spoiled = random.pick(reads);
  const shift = random.between(-6, 6);
  return operations.map((operation) =>
    operation === spoiled
      ? { ...operation, start: operation.start + shift, end: operation.end + shift, value: random.between(0, written) }
      : operation,
  );
}

describe('the register check', () => {
  it('agrees with trying every order on 30,000 random histories', () => {
    const random = new SeededRandom(20_261_120);
    const seen = { valid: 0, invalid: 0 };
    for (let round = 0; round < 30_000; round++) {
      const history = randomHistory(random);
      const explained = hasExplanation(history);
      expect(isAccepted(history), JSON.stringify(history)).toBe(explained);
      seen[explained ? 'valid' : 'invalid']++;
    }
    expect(seen.valid).toBeGreaterThan(5_000);
    expect(seen.invalid).toBeGreaterThan(5_000);
  });

  it('names the values of a stale read', () => {
    const history = new RegisterHistory(INITIAL);
    history.write(1, 0, 1, 'done');
    history.write(2, 2, 3, 'done');
    history.read(1, 4, 5);
    expect(history.violations()).toEqual([
      '2 was held between 2.000 ms and 3.000 ms, but 1 was held from 1.000 ms to 4.000 ms',
    ]);
  });

  it('tests a million operations in seconds', () => {
    const history = new RegisterHistory(INITIAL);
    for (let value = 1; value <= 500_000; value++) {
      history.write(value, 2 * value, 2 * value + 1, 'done');
      history.read(value, 2 * value + 0.5, 2 * value + 1.5);
    }
    const startedAt = performance.now();
    expect(history.violations()).toEqual([]);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });
});
