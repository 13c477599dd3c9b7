import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ERRORS } from '../../src/errors/error-code.ts';
import { type Answer, Connection, type Question, requestBytes } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

/** The project `fuzz` asks for more. */
const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? '400');
const IN_FLIGHT = 8;
const HANGS_AFTER_MS = 10_000;

const KEY = 'fuzz-key-that-lets-everything-in-000000001';
const PETS = ['0', '1', '-1', '42', '9007199254740993', '9223372036854775807', '-9223372036854775808'];

let service: TestService;
beforeAll(async () => {
  service = await startService({ key: KEY });
  await service.stock(...PETS.map((petId) => [petId, 5] as const));
});
afterAll(() => service.stop());

/** Mostly good, so that what is wrong with a request is seldom more than one thing. */
function mostly<T>(good: fc.Arbitrary<T>, bad: fc.Arbitrary<T>): fc.Arbitrary<T> {
  return fc.oneof({ arbitrary: good, weight: 4 }, { arbitrary: bad, weight: 1 });
}

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((array) => Buffer.from(array).toString('latin1'));
const visible = fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) });
const fieldValue = fc.string({ unit: 'grapheme-ascii', maxLength: 40 });

const READING = ['GET', 'GET', 'GET', 'HEAD', 'OPTIONS'];
const oddMethod = fc.oneof(
  fc.constantFrom('GET', 'PATCH', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT', 'QUERY', 'M-SEARCH', 'get', 'FOO'),
  visible,
);
const petId = mostly(
  fc.constantFrom(...PETS),
  fc.oneof(fc.bigInt().map(String), fc.constantFrom('abc', '01', '1e3', '%31', '%00', '%', '..'), visible),
);
const target = fc.oneof(
  { arbitrary: petId.map((id) => `/v1/inventory/${id}`), weight: 6 },
  { arbitrary: fc.constant('/v1/inventory'), weight: 3 },
  { arbitrary: visible.map((query) => `/v1/inventory?${query}`), weight: 1 },
  {
    arbitrary: fc.constantFrom('/health/live', '/health/ready', '/openapi.json', '/docs', '/metrics', '/', '*'),
    weight: 1,
  },
  { arbitrary: visible.map((path) => `/${path}`), weight: 1 },
  { arbitrary: visible.map((path) => `http://inventory.test/${path}`), weight: 1 },
  { arbitrary: bytes(20), weight: 1 },
);
const quantity = fc.oneof(
  fc.nat({ max: 2_147_483_647 }).map(String),
  fc.constantFrom(
    '5.0',
    '1e2',
    '-0',
    '-1',
    '2147483647',
    '2147483648',
    '1.5',
    '"5"',
    'null',
    '[5]',
    '1e400',
    '5.00000000000000000001',
  ),
  fc.json({ maxDepth: 4 }),
);
const body = fc.oneof(
  { arbitrary: quantity.map((json) => `{"quantity":${json}}`), weight: 6 },
  { arbitrary: fc.json(), weight: 1 },
  { arbitrary: quantity.map((json) => `{"quantity":${json},"quantity":1}`), weight: 1 },
  { arbitrary: fc.tuple(quantity, fc.json()).map(([json, more]) => `{"quantity":${json},"more":${more}}`), weight: 1 },
  { arbitrary: bytes(1_500), weight: 1 },
  { arbitrary: fc.constant(''), weight: 1 },
  { arbitrary: fc.nat({ max: 3_000 }).map((length) => '{"quantity":5}'.padEnd(length)), weight: 1 },
);
const authorization = mostly<string | undefined>(
  fc.constant(`Bearer ${KEY}`),
  fc.oneof(fc.constant(undefined), fc.constantFrom('Bearer', `bearer ${KEY}`, `Basic ${KEY}`), fieldValue),
);
const tag = fc.oneof(
  fc.constantFrom('*', '"available-5"', 'W/"available-5"', '"sold-0", "available-5"', '"', '""', 'available-5'),
  fieldValue,
);
const moreHeaders = fc.array(
  fc.oneof(
    fc.tuple(fc.constantFrom('If-Match', 'If-None-Match'), tag),
    fc.tuple(
      fc.constantFrom('Accept-Encoding', 'Accept', 'X-Request-Id', 'Expect', 'Origin', 'Range', 'TE'),
      fieldValue,
    ),
    fc.tuple(fc.constant('Accept-Encoding'), fc.constantFrom('gzip', 'br', 'gzip;q=0, br;q=0.1', '*')),
    fc.tuple(
      fc.constantFrom('Content-Length', 'Transfer-Encoding', 'Content-Encoding', 'Connection', 'Upgrade', 'Host'),
      fc.constantFrom('5', '0', '99999', 'chunked', 'gzip', 'close', 'upgrade', 'h2c', 'inventory.test', 'a b'),
    ),
    fc.tuple(fc.constant('Expect'), fc.constant('100-continue')),
    fc.tuple(visible, fieldValue),
  ),
  { maxLength: 3 },
);

const question: fc.Arbitrary<Question> = fc
  .record({
    reading: fc.constantFrom(...READING),
    oddMethod,
    isOdd: fc.nat({ max: 5 }).map((dice) => dice === 0),
    target,
    authorization,
    mediaType: mostly<string | undefined>(
      fc.constant('application/json'),
      fc.oneof(fc.constant(undefined), fc.constantFrom('text/plain', 'application/json; charset=latin1'), fieldValue),
    ),
    moreHeaders,
    body: fc.option(body, { nil: undefined, freq: 4 }),
  })
  .map(({ reading, oddMethod, isOdd, target, authorization, mediaType, moreHeaders, body }) => ({
    method: isOdd ? oddMethod : target.startsWith('/v1/inventory/') ? 'PATCH' : reading,
    target,
    headers: [
      ...(authorization === undefined ? [] : [['Authorization', authorization] as const]),
      ...(mediaType === undefined ? [] : [['Content-Type', mediaType] as const]),
      ...moreHeaders,
    ],
    ...(body === undefined ? {} : { body: Buffer.from(body, 'latin1') }),
  }));

/** Of each pet its row, and how often it was changed. */
async function stock(): Promise<Map<string, string>> {
  const rows = await service.sql<{ pet_id: string; state: string }>(
    `SELECT pet_id, concat_ws(' ', quantity, status, (SELECT count(*) FROM stock_change c WHERE c.pet_id = i.pet_id)) AS state
       FROM inventory_item i ORDER BY pet_id`,
  );
  return new Map(rows.map(({ pet_id, state }) => [pet_id, state]));
}

/** As often as an update was answered 200 the pet was changed, and is now as one of these answers says. */
function judgeStock(before: Map<string, string>, after: Map<string, string>, updates: readonly Answer[]): void {
  const updated = Map.groupBy(updates, ({ text }) => /"petId":(-?\d+)/.exec(text)?.[1] ?? '');
  for (const [petId, state] of before) {
    const [, status, changes] = state.split(' ');
    const answers = updated.get(petId) ?? [];
    const possible = answers.map(({ text }) => `${/"quantity":(\d+)/.exec(text)?.[1] ?? ''} ${status ?? ''}`);
    const count = Number(changes) + answers.length;
    expect(possible.length === 0 ? [state] : possible.map((each) => `${each} ${count}`)).toContain(after.get(petId));
  }
  expect([...after.keys()]).toEqual([...before.keys()]);
}

/** The first final answer. What follows it on the connection belongs to another request, if to any. */
async function finalAnswer(asked: Question): Promise<Answer> {
  const connection = await Connection.open(service.port);
  try {
    connection.send(requestBytes(asked));
    connection.finish();
    for (;;) {
      const answer = await connection.answer({ toHead: asked.method === 'HEAD', withinMs: HANGS_AFTER_MS });
      if (answer.status >= 200) return answer;
    }
  } finally {
    connection.destroy();
  }
}

const SUCCESSES: readonly (readonly [method: RegExp, path: RegExp, statuses: readonly number[]])[] = [
  [/^(GET|HEAD)$/, /^\/v1\/inventory$/, [200, 304]],
  [/^(GET|HEAD)$/, /^\/(health\/(live|ready)|openapi\.(json|yaml)|metrics|docs|docs\/[\w.-]+)$/, [200, 304]],
  [/^(GET|HEAD)$/, /^\/(docs\/)?$/, [302]],
  [/^PATCH$/, /^\/v1\/inventory\/[^/]+$/, [200]],
  [/^OPTIONS$/, /./, [204]],
];

/** An Error that holds together, or a success that is documented. */
function judge({ method = '', target = '' }: Question, { status, headers, text }: Answer): void {
  expect(headers['x-request-id']).toMatch(/^[\w-]{1,64}$/);
  expect(headers['x-content-type-options']).toBe('nosniff');
  expect(headers['x-powered-by']).toBeUndefined();
  if (status < 400) {
    const path = target.replace(/^https?:\/\/[^/?]+/i, '').replace(/\?.*$/s, '');
    const documented = SUCCESSES.some(
      ([methods, paths, all]) => methods.test(method) && paths.test(path) && all.includes(status),
    );
    expect(documented, `${method} ${target} ${status}`).toBe(true);
    return;
  }
  expect(status).toBeLessThan(500);
  expect(headers['content-type']).toBe('application/json; charset=utf-8');
  expect(headers['cache-control']).toBe('no-store');
  if (method === 'HEAD') return;
  const error = JSON.parse(text) as { code: keyof typeof ERRORS; message: string; status: number };
  expect(error).toEqual({ code: error.code, message: expect.any(String) as string, status });
  expect(ERRORS[error.code].status).toBe(status);
}

it(
  `answers ${REQUESTS} random requests with an Error or a documented success, and changes nothing by a refused one`,
  async () => {
    const statuses = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(fc.array(question, { minLength: IN_FLIGHT, maxLength: IN_FLIGHT }), async (questions) => {
        const before = await stock();
        const answers = await Promise.all(questions.map(finalAnswer));
        for (const [at, answer] of answers.entries()) {
          judge(questions[at] ?? {}, answer);
          statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        }
        const updates = answers.filter(({ status }, at) => questions[at]?.method === 'PATCH' && status === 200);
        judgeStock(before, await stock(), updates);
      }),
      { numRuns: Math.ceil(REQUESTS / IN_FLIGHT) },
    );
    if (process.env['FUZZ_REQUESTS'] !== undefined) console.log(Object.fromEntries([...statuses].sort()));
  },
  Math.max(60_000, 20 * REQUESTS),
);
