import { expect, it } from 'vitest';
import type { Answer } from '../../test/support/http-client.ts';
import { itemText, listText } from '../../test/support/stock.ts';
import { Evidence } from './evidence.ts';
import type { Exchange } from './exchange.ts';
import { Linearizability } from './linearizability.ts';

type Times = readonly [start: number, end: number];
type Step = readonly [operation: Exchange['operation'], status: number, text: string, ...Times];
type Row = readonly [name: string, steps: readonly Step[], quantities: readonly number[], found: string | undefined];

/** Two pets, each with its number as its quantity. A row has the quantities that pet 1 had after that. */
const INITIAL = new Map([
  [1, 1],
  [2, 2],
]);
const ERROR = (code: string) => JSON.stringify({ code, message: '', status: 503 });

const set = (quantity: number, times: Times, expected?: number): Step => {
  const condition = expected === undefined ? {} : { expected };
  return [{ kind: 'update', petId: 1, quantity, ...condition }, 200, itemText(1, quantity), ...times];
};
const failed = (quantity: number, code: string, times: Times): Step => [
  { kind: 'update', petId: 1, quantity },
  503,
  ERROR(code),
  ...times,
];
const list = (one: number, two: number, times: Times): Step => [
  { kind: 'list' },
  200,
  listText([1, one], [2, two]),
  ...times,
];
const setPet2: Step = [{ kind: 'update', petId: 2, quantity: 20 }, 200, itemText(2, 20), 0, 9];

const ROWS: readonly Row[] = [
  ['accepts a list of a value whose update is under way', [set(10, [0, 4]), list(10, 2, [1, 2])], [10], undefined],
  ['accepts a list from before an update, which ends after it', [set(10, [1, 2]), list(1, 2, [0, 9])], [10], undefined],
  ['accepts an applied update of unknown outcome', [failed(10, 'outcome_unknown', [0, 1])], [10], undefined],
  ['refuses a list that misses an acknowledged update', [set(10, [0, 1]), list(1, 2, [2, 3])], [10], 'followed it'],
  [
    'refuses a list that is older than one before it',
    [set(10, [0, 9]), list(10, 2, [1, 2]), list(1, 2, [3, 4])],
    [10],
    'followed it',
  ],
  ['refuses updates in another order than clients saw', [set(10, [0, 1]), set(11, [2, 3])], [11, 10], 'followed it'],
  ['refuses a value before it was sent', [list(10, 2, [0, 1]), set(10, [2, 3])], [10], 'before its write began'],
  [
    'refuses a list with a value whose update was refused',
    [failed(10, 'service_unavailable', [0, 1]), list(10, 2, [2, 3])],
    [],
    'the store never had it',
  ],
  ['refuses a lost update', [set(10, [0, 1])], [], 'lost update: pet 1 := 10'],
  ['refuses an update that was written twice', [set(10, [0, 1])], [10, 10], '10 was written twice'],
  ['refuses an update that nobody sent', [], [10], "nobody's accepted update set 10"],
  ['refuses a precondition that did not hold', [set(10, [0, 1], 5)], [10], '10 was to replace 5 only'],
  [
    'refuses two lists of which neither is the newer one',
    [set(10, [0, 9]), setPet2, list(10, 2, [1, 8]), list(1, 20, [1, 8])],
    [10],
    'no moments of one store',
  ],
  ['refuses a slow answer', [list(1, 2, [0, 2_000])], [], 'took 2000 ms'],
  ['refuses an undocumented failure', [failed(10, 'internal_error', [0, 1])], [], 'was answered 503'],
];

it.each(ROWS)('the evidence %s', (_name, steps, quantities, found) => {
  const evidence = new Evidence(INITIAL, 1_000, new Linearizability(INITIAL));
  for (const [operation, status, text, start, end] of steps) {
    const headers = { 'content-type': 'application/json', 'retry-after': '1' };
    const outcome: Answer = { status, headers, text, bytes: Buffer.from(text) };
    const target = { name: 'service', port: 0, killedAt: -Infinity };
    evidence.add({ target, client: 0, operation, start, end, connectedAt: 0, outcome });
  }
  const all = [
    [1, ...quantities],
    [2, ...(steps.includes(setPet2) ? [20] : [])],
  ].map(
    ([petId = 0, ...afters]) =>
      [
        petId,
        afters.map((after, n) => ({ petId, before: afters[n - 1] ?? petId, after, requestId: `q${after}` })),
      ] as const,
  );
  const last = all.map(([petId, changes]) => [petId, changes.at(-1)?.after ?? petId] as const);
  evidence.conclude({ readStart: 10_000, readEnd: 10_001, quantities: new Map(last), changes: new Map(all) });
  if (found === undefined) expect(evidence.examples).toEqual([]);
  else expect(evidence.examples).toContainEqual(expect.stringContaining(found));
});
