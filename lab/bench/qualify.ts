import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from './client.ts';
import { keys, startDatabase, type ExpectedList, type Store } from './database.ts';
import { SIDES, type SideName } from './scenarios.ts';
import { startSide, storeOf, type Side } from './sides.ts';

/** @throws when one of the sides does not keep what all promise */
export async function qualify(sides: Iterable<SideName>): Promise<void> {
  await using database = await startDatabase();
  for (const name of sides) {
    const store = storeOf(name, database);
    await store.fill(10);
    store.expectWrites();
    await using side = await startSide(name, { DATABASE_URL: store.url });
    await checkPromises(side, store).catch((error: unknown) => {
      throw new Error(`${SIDES[name]} does not keep its promises`, { cause: error });
    });
  }
}

/** @throws what a side does not keep */
async function checkPromises(side: Side, store: Store): Promise<void> {
  const pet = '9223372036854775807';
  const expect = async (what: string, status: number, key: string, path = '', update?: string): Promise<string> => {
    const response = await ask(side.url + path, { key, update });
    if (response.status !== status) throw new Error(`${what}: ${response.status} instead of ${status}`);
    return (await response.text()).replace(/\s/g, ''); // no string in these bodies holds a space
  };
  await expect('an unknown key', 401, `${keys.good}x`);
  await expect('the list', 200, keys.good);
  await expect('a missing quantity', 400, keys.good, `/${pet}`, '{}');
  await expect('a quantity in quotes', 400, keys.good, `/${pet}`, '{"quantity":"5"}');
  await expect('a negative quantity', 400, keys.good, `/${pet}`, '{"quantity":-1}');
  await expect('a fraction', 400, keys.good, `/${pet}`, '{"quantity":1.5}');
  await expect('a petId outside of int64', 400, keys.good, '/9223372036854775808', '{"quantity":5}');
  await expect('an unknown pet', 404, keys.good, '/4611686018427387904', '{"quantity":5}');
  await store.query("UPDATE api_key SET revoked_at = NULL WHERE id = 'readOnly'"); // which another side's check revoked
  await expect('a read-only key for an update', 403, keys.readOnly, `/${pet}`, '{"quantity":5}');
  await expect('an expired key', 401, keys.expired);
  await expect('a revoked key', 401, keys.revoked);
  await store.query("UPDATE api_key SET revoked_at = now() WHERE id = 'readOnly'");
  await sleep(1); // the clocks of now() and of the process may differ by a millisecond
  await expect('a key revoked a moment ago', 401, keys.readOnly);

  const changed = await expect('an update', 200, keys.good, `/${pet}`, '{"quantity":2147483647}');
  if (changed !== `{"petId":${pet},"quantity":2147483647,"status":"pending"}`) {
    throw new Error(`an update is answered ${changed}`);
  }
  const rows = await store.query<{ row: string }>(
    `SELECT concat_ws(' ', pet_id, quantity_before, quantity_after, split_part(changed_by, ':', 1),
                      length(request_id)) AS row FROM stock_change`,
  );
  const history = rows.map(({ row }) => row).join(', ');
  const expectedHistory = `${pet} 7 2147483647 key 36`;
  if (history !== expectedHistory) throw new Error(`history holds "${history}" instead of "${expectedHistory}"`);

  // Many at once, on few pets, so that they meet: each that is accepted has its row.
  const count = 100;
  await Promise.all(
    Array.from({ length: count }, (_, n) =>
      expect('an update among many', 200, keys.good, `/${1 + (n % 5)}`, `{"quantity":${1_000_000 + n}}`),
    ),
  );
  const fault = await store.faultInHistory(1 + count, 0);
  if (fault) throw new Error(fault);
}

/** @returns how a side's list differs from the database's, or undefined; spaces between members are no difference */
export async function faultInList(side: Side, expected: ExpectedList): Promise<string | undefined> {
  const response = await ask(side.url);
  const body = Buffer.from(await response.arrayBuffer());
  if (response.status !== 200) return `the list is answered ${response.status}`;
  if (hash('sha256', body) === expected.sha256) return undefined;
  if (hash('sha256', body.toString().replace(/\s/g, '')) === expected.sha256) return undefined;
  return `its list of ${body.length} bytes is not the database's of ${expected.bytes}`;
}
