import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { keys, type BenchDatabase, type ExpectedList } from './database.ts';
import type { RunningSide } from './sides.ts';

interface Answer {
  status: number;
  body: string;
}

async function send(side: RunningSide, key: string, path = '', update?: string): Promise<Answer> {
  const answer = await fetch(side.url + path, {
    headers: {
      Authorization: `Bearer ${key}`,
      ...(update === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(update === undefined ? {} : { method: 'PATCH', body: update }),
  });
  return { status: answer.status, body: await answer.text() };
}

/** @returns the promise that a side does not keep, or undefined when it may be measured */
export async function brokenPromise(side: RunningSide, database: BenchDatabase): Promise<string | undefined> {
  const { keepsPromises } = side;
  const pet = '9223372036854775807';
  const attempts: [what: string, status: number, key: string, path?: string, update?: string][] = [
    ['an unknown key', 401, `${keys.good}x`],
    ['the list', 200, keys.good],
    ['a missing quantity', 400, keys.good, `/${pet}`, '{}'],
    ['a quantity in quotes', 400, keys.good, `/${pet}`, '{"quantity":"5"}'],
    ['a negative quantity', 400, keys.good, `/${pet}`, '{"quantity":-1}'],
    ['a fraction', 400, keys.good, `/${pet}`, '{"quantity":1.5}'],
    ['a petId outside of int64', 400, keys.good, '/9223372036854775808', '{"quantity":5}'],
    ['an unknown pet', 404, keys.good, '/4611686018427387904', '{"quantity":5}'],
  ];
  if (keepsPromises) {
    attempts.push(
      ['a read-only key for an update', 403, keys.readOnly, `/${pet}`, '{"quantity":5}'],
      ['an expired key', 401, keys.expired],
      ['a revoked key', 401, keys.revoked],
    );
  }
  for (const [what, status, ...request] of attempts) {
    const answer = await send(side, ...request);
    if (answer.status !== status) return `${what}: ${answer.status} instead of ${status}`;
  }
  if (keepsPromises) {
    await database.query('UPDATE api_key SET revoked_at = now() WHERE name = $1 AND key_sha256 = $2', [
      'benchmark',
      sha256(keys.readOnly),
    ]);
    await sleep(1); // the clocks of now() and of the process may differ by a millisecond
    const { status } = await send(side, keys.readOnly);
    await database.query('UPDATE api_key SET revoked_at = NULL WHERE key_sha256 = $1', [sha256(keys.readOnly)]);
    if (status !== 401) return `a key revoked a moment ago: ${status} instead of 401`;
  }
  const changed = await send(side, keys.good, `/${pet}`, '{"quantity":2147483647}');
  const expected = `{"petId":${pet},"quantity":2147483647,"status":"pending"}`;
  if (changed.status !== 200 || withoutSpace(changed.body) !== expected) return `an update is answered ${changed.body}`;
  return (await faultInHistory(side, pet, database)) ?? faultInManyUpdates(side, database);
}

async function faultInHistory(side: RunningSide, pet: string, database: BenchDatabase): Promise<string | undefined> {
  const rows = await database.query<{ row: string }>(
    `SELECT concat_ws(' ', pet_id, quantity_before, quantity_after, status_before, status_after,
                      split_part(changed_by, ':', 1)) AS row FROM stock_change`,
  );
  const expected = side.keepsPromises ? `${pet} 7 2147483647 pending pending key` : '';
  const found = rows.map(({ row }) => row).join(', ');
  return found === expected ? undefined : `history holds "${found}" instead of "${expected}"`;
}

/** Many at once, on few pets, so that they meet: each that is accepted has its row. */
async function faultInManyUpdates(side: RunningSide, database: BenchDatabase): Promise<string | undefined> {
  const count = 500;
  const answers = await Promise.all(
    Array.from({ length: count }, (_, n) => send(side, keys.good, `/${1 + (n % 5)}`, `{"quantity":${1_000_000 + n}}`)),
  );
  const refused = answers.find(({ status }) => status !== 200);
  if (refused) return `an update among many is answered ${refused.status}`;
  return side.keepsPromises ? database.faultInHistory(1 + count, 0) : undefined;
}

/** @returns how a side's list differs from the one that the database makes, or undefined; spaces between members are no difference */
export async function faultInList(side: RunningSide, expected: ExpectedList): Promise<string | undefined> {
  const answer = await fetch(side.url, {
    headers: { Authorization: `Bearer ${keys.good}`, 'Accept-Encoding': 'identity' },
  });
  const body = Buffer.from(await answer.arrayBuffer());
  if (answer.status !== 200) return `the list is answered ${answer.status}`;
  if (hash('sha256', body) === expected.sha256) return undefined;
  if (hash('sha256', withoutSpace(body.toString())) === expected.sha256) return undefined;
  return `its list of ${body.length} bytes is not the database's of ${expected.bytes}`;
}

function withoutSpace(json: string): string {
  return json.replace(/\s/g, ''); // no string in these bodies holds a space
}

function sha256(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}
