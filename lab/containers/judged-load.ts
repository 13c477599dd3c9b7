import type { Database } from '../../test/support/database.ts';
import { Evidence } from '../faults/evidence.ts';
import type { Target } from '../faults/exchange.ts';
import { fillStock, readFinalState, type FinalState } from '../faults/final-state.ts';
import { Linearizability } from '../faults/linearizability.ts';
import { Load } from '../faults/load.ts';
import { succeeded } from '../faults/measures.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';

const PETS = 100;
const ofTheRun = new SeededRandom(Number(process.env['SEED'] ?? 1));
const quantities = { last: PETS };

export type JudgedLoad = Awaited<ReturnType<typeof startJudgedLoad>>;

/** These trials judge what is answered, not how fast. */
const ANSWER_WITHIN_MS = 14_000;

/** Starts load on a store of a hundred pets without history. Judges each answer, and at the end the history. */
export async function startJudgedLoad(
  database: Database,
  targets: readonly Target[],
  apiKey: string,
  thinkTimeMs = 10, // a dozen containers share the processor with it
  random = ofTheRun,
) {
  await database.sql(
    `TRUNCATE inventory_item; SELECT set_config('inventory.history', 'prune', true); DELETE FROM stock_change`,
  );
  const stock = await fillStock(database, PETS);
  const evidence = new Evidence(stock, ANSWER_WITHIN_MS, new Linearizability(stock));
  const petIds = [...stock.keys()];
  const load = new Load({ targets, apiKey, quantities, random, workers: 32, petIds, thinkTimeMs });
  /** When a list and an update last succeeded, and the longest times without. */
  const last = { update: performance.now(), list: performance.now() };
  const gapMs = { update: 0, list: 0 };
  const refusals: string[] = [];
  load.onExchange((exchange) => {
    evidence.add(exchange);
    const { operation, outcome, start, end } = exchange;
    if ('status' in outcome && outcome.status === 503)
      refusals.push(`after ${Math.round(end - start)} ms: ${outcome.text}`);
    if (!succeeded(exchange)) return;
    const { kind } = operation;
    gapMs[kind] = Math.max(gapMs[kind], end - last[kind]);
    last[kind] = Math.max(last[kind], end);
  });
  load.start();
  return {
    load,
    evidence,
    /** Each 503: after how long it came, and its body. */
    refusals,
    last,
    gapMs,
    /**
     * Stops the load and judges: `evidence.examples` has what was wrong.
     * @param end the database that has the store then
     */
    async stop(end = database): Promise<FinalState> {
      await load.stop();
      const state = await readFinalState(end);
      evidence.conclude(state);
      return state;
    },
  };
}
