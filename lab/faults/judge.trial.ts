import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { KeyCheck } from '../../src/keys/key-check.ts';
import type { Inventory, ListRequest, QuantityUpdate } from '../../src/inventory/inventory.ts';
import { Piece, StockList } from '../../src/inventory/list/stock-list.ts';
import { areHere } from '../contract/tools.ts';
import { SERVICES } from '../../test/inventory-service/services.ts';
import { startService } from '../../test/support/service.ts';
import { itemOf } from '../../test/support/stock.ts';
import { bodyOf } from '../../test/support/stock-lists.ts';
import { fillStock, readFinalState } from './final-state.ts';
import { History } from './history.ts';
import { judge } from './judge.ts';
import { Load } from './load.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';

const PETS = 20;
const OPERATIONS = 600;
const NOBODYS_KEY = '00'.repeat(32);
/** How long an update is under way after its commit, in the service whose lists disagree. */
const HELD_MS = 20;

type Methods = Pick<Inventory, 'list' | 'setQuantity'>;
interface Right extends Methods {
  /** The request, as if it came now. */
  readonly anew: (request: ListRequest) => Promise<ListRequest>;
}

/** True once in so many calls. */
function onceIn(count: number): () => boolean {
  let calls = 0;
  return () => ++calls % count === 0;
}

const isPlain = ({ ifMatch, idempotencyKey }: QuantityUpdate) => ifMatch === null && idempotencyKey === null;

/** The methods of a broken service, made of the right ones. */
const MISTAKES: Readonly<Record<string, (right: Right) => Partial<Methods>>> = {
  'a list is one commit old': ({ list }) => {
    const isOld = onceIn(10);
    let last: StockList | undefined;
    let before: StockList | undefined;
    return {
      async list(request) {
        const present = await list(request);
        if (present.tag('identity') !== last?.tag('identity')) [before, last] = [last, present];
        return isOld() && before ? before : present;
      },
    };
  },

  'an acknowledged update is lost': ({ setQuantity }) => {
    const isLost = onceIn(20);
    return {
      setQuantity(update, deadline) {
        const { petId, quantity } = update;
        if (!isPlain(update) || !isLost()) return setQuantity(update, deadline);
        return Promise.resolve({ outcome: 'done', item: itemOf(petId, quantity) });
      },
    };
  },

  'an update is applied twice': ({ setQuantity }) => {
    const isDoubled = onceIn(10);
    const doubled = new Map<bigint, QuantityUpdate>();
    return {
      async setQuantity(update, deadline) {
        const updated = await setQuantity(update, deadline);
        // The second time comes after a later update of the pet: before that, nobody could see it.
        const earlier = doubled.get(update.petId);
        doubled.delete(update.petId);
        if (earlier) await setQuantity(earlier, deadline);
        if (isPlain(update) && isDoubled()) doubled.set(update.petId, update);
        return updated;
      },
    };
  },

  'a repetition is applied again': ({ setQuantity }) => {
    const used = new Set<string>();
    return {
      async setQuantity(update, deadline) {
        const { idempotencyKey: key } = update;
        if (key === null) return setQuantity(update, deadline);
        const isRepetition = used.has(key);
        const ifMatch = isRepetition ? null : update.ifMatch;
        const { item } = await setQuantity({ ...update, ifMatch, idempotencyKey: null }, deadline);
        used.add(key);
        return { item, outcome: isRepetition ? 'replayed' : 'done' };
      },
    };
  },

  // Each half is of a moment of the request, and updates are under way until lists have shown them. So each pet alone
  // is right.
  'two lists disagree on the order of two updates': ({ list, setQuantity, anew }) => {
    const isReversed = onceIn(2);
    return {
      async list(request) {
        const first = await list(request);
        let second = first;
        for (let attempts = 0; attempts < 20 && second.tag('identity') === first.tag('identity'); attempts++) {
          await sleep(1);
          second = await list(await anew(request));
        }
        const [one, other] = isReversed() ? [second, first] : [first, second];
        const items = [...itemsOf(one).slice(0, PETS / 2), ...itemsOf(other).slice(PETS / 2)];
        return new StockList(Piece.cut(`,${JSON.stringify(items).slice(1, -1)}`));
      },
      async setQuantity(update, deadline) {
        const updated = await setQuantity(update, deadline);
        await sleep(HELD_MS);
        return updated;
      },
    };
  },

  'a condition is ignored': ({ setQuantity }) => ({
    setQuantity: (update, deadline) => setQuantity({ ...update, ifMatch: null }, deadline),
  }),
};

const itemsOf = ({ plain }: StockList) => JSON.parse(bodyOf(plain).toString()) as unknown[];

const like = (pattern: RegExp) => expect.stringMatching(pattern) as string;

/** Judges what eight clients see of a service with these methods in the place of its own. */
async function verdictOn(FAST: string, mistake: (right: Right) => Partial<Methods> = () => ({}), limit?: string) {
  const service = await startService({ settings: { FAST } });
  const inventory: Methods = service.inventory;
  const keys = service.app.get(KeyCheck);
  const right: Right = {
    list: inventory.list.bind(inventory),
    setQuantity: inventory.setQuantity.bind(inventory),
    anew: async (request) => ({ ...request, snapshot: (await keys.check(NOBODYS_KEY, request.deadline)).snapshot }),
  };
  Object.assign(inventory, mistake(right));

  const folder = mkdtempSync(join(tmpdir(), 'history-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'history.jsonl');
  const stock = await fillStock(service.database, PETS);
  const history = new History(file, 'trial', stock);
  const load = new Load({
    targets: [{ name: 'service', port: service.port, killedAt: -Infinity }],
    apiKey: service.key,
    quantities: { last: PETS },
    random: new SeededRandom(1),
    workers: 8,
    petIds: [...stock.keys()],
    conditionalShare: 0.3,
    keyedShare: 0.3,
    missedShare: 0.3,
  });
  load.onExchange((exchange) => history.add(exchange));
  load.start();
  while (history.operations < OPERATIONS) await sleep(10);
  await load.stop();
  history.conclude(await readFinalState(service.database));
  return judge(file, limit);
}

describe.skipIf(!(await areHere('go'))).each(SERVICES)('the judge of %s', (_name, FAST) => {
  it('accepts its history', async () => {
    expect(await verdictOn(FAST)).toEqual({ report: like(/^Ok trial: .*$/), refused: [] });
  });

  it.each(Object.entries(MISTAKES))('refuses and draws a history in which %s', async (_mistake, broken) => {
    const report = like(/^Illegal trial: .*\n {2}drawn in \S+\.html$/);
    expect(await verdictOn(FAST, broken)).toEqual({ report, refused: ['trial'] });
  });

  it('refuses a history for which the time is too short', async () => {
    expect(await verdictOn(FAST, undefined, '1ns')).toEqual({ report: like(/^Unknown trial: /), refused: ['trial'] });
  });
});
