import { beforeAll, expect, it } from 'vitest';
import { type TestService, startService } from '../support/service.ts';
import { FIVE, listBytes, sendOn, updateBytes } from './raw-requests.ts';

const members = (count: number) => Array.from({ length: count }, (_, n) => `"${n}":1`).join(',');

/** Bodies that cost a careless reader most. */
const HOSTILE: Readonly<Record<string, string>> = {
  'opened arrays': '['.repeat(1024),
  'arrays in arrays': `${'['.repeat(512)}${']'.repeat(512)}`,
  'objects in objects': `${'{"":'.repeat(204)}1${'}'.repeat(204)}`,
  'many members': `{${members(140)}}`,
  'many members of a nested object': `{"quantity":{${members(138)}}}`,
  'the same member': `{${'"a":1,'.repeat(169)}"b":1}`,
  'a long number': `{"quantity":${'9'.repeat(1_000)}}`,
  escapes: `{"quantity":"${'\\"'.repeat(500)}"}`,
  backslashes: `{"quantity":"${'\\\\'.repeat(500)}"}`,
  'unicode escapes': `{"${'\\u0071'.repeat(165)}":5}`,
  'quotes without an end': '"'.repeat(1024),
  'spaces before a colon': `{"quantity"${' '.repeat(1_000)}:5}`,
  'invalid UTF-8': '\x80'.repeat(1024),
};

/** Lists of entity tags that end badly, so that a careless reader tries each way to split them. */
const HOSTILE_IF_MATCH: Readonly<Record<string, string>> = {
  'commas behind a tag': `"a"${','.repeat(7_000)}x`,
  'spaces behind a tag': `"a"${' '.repeat(7_000)}x`,
  'many tags': `${'"a",'.repeat(1_750)}x`,
};

/** How many good bodies a hostile one may cost. A busy machine's other programs are not in it, for CPU time is measured. */
const MOST_GOOD_BODIES = 2;
const ROUNDS = 20;

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 5]);
});

async function cpuMicroseconds(body: string, ifMatch = '*'): Promise<number> {
  expect(body.length).toBeLessThanOrEqual(1024);
  const headers = `If-Match: ${ifMatch}\r\nContent-Length: ${body.length}\r\n`;
  const request = updateBytes(service.key, headers, body);
  const connection = await sendOn(service.port);
  const costs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage();
    await connection.send(request).answer();
    const { user, system } = process.cpuUsage(before);
    costs.push(user + system);
  }
  return costs.sort((a, b) => a - b)[ROUNDS / 4] ?? Infinity;
}

/** Measures again, up to five times, what seems dear: the compiler and the garbage collector take part in some measurements. */
async function goodBodies(...hostile: Parameters<typeof cpuMicroseconds>): Promise<number> {
  let least = Infinity;
  for (let time = 0; time < 5 && least > MOST_GOOD_BODIES; time++) {
    least = Math.min(least, (await cpuMicroseconds(...hostile)) / (await cpuMicroseconds(FIVE)));
  }
  return least;
}

it('a hostile body or If-Match costs no more than a few good bodies, client included', async () => {
  const hostile: [name: string, body: string, ifMatch?: string][] = [
    ...Object.entries(HOSTILE),
    ...Object.entries(HOSTILE_IF_MATCH).map(([name, ifMatch]): [string, string, string] => [name, FIVE, ifMatch]),
  ];
  await cpuMicroseconds(FIVE);
  for (const [, ...parts] of hostile) await cpuMicroseconds(...parts); // compiles what they use
  const dear: Record<string, number> = {};
  for (const [name, ...parts] of hostile) {
    const cost = await goodBodies(...parts);
    if (cost > MOST_GOOD_BODIES) dear[name] = cost;
  }
  expect(dear).toEqual({});
});

it('a bad key takes as long to be refused whether it is unknown, expired, revoked or malformed, to within noise', async () => {
  const keys = [...['late', 'gone', 'nobody'].map((name) => name.padStart(40, 'x')), 'psk_short'];
  await service.addKey(keys[0] ?? '', { expires_at: new Date(0) });
  await service.addKey(keys[1] ?? '', { revoked_at: new Date(0) });
  const connection = await sendOn(service.port);
  // Other programs of a busy machine slow down whom they meet, but not the fastest of so many.
  const fastest = keys.map(() => Infinity);
  for (let round = 0; round < 200; round++) {
    for (const [at, key] of keys.entries()) {
      const startedAt = performance.now();
      expect((await connection.send(listBytes(key)).answer()).status).toBe(401);
      fastest[at] = Math.min(fastest[at] ?? 0, performance.now() - startedAt);
    }
  }
  expect(Math.max(...fastest)).toBeLessThan(1.4 * Math.min(...fastest));
});
