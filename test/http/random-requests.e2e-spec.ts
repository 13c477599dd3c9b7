import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import { ERRORS } from '../../src/errors/error-code.ts';
import { type Answer, Connection, type HeaderLines, type Question, requestBytes } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

/** CONTRIBUTING.md says how to send more. */
const REQUESTS = Number(process.env['FUZZ_REQUESTS'] ?? '160');
const IN_FLIGHT = 8;

const KEY = 'fuzz-key-that-lets-everything-in-000000001';
const PETS = ['0', '1', '-1', '42', '9007199254740993', '9223372036854775807', '-9223372036854775808'];

let service: TestService;
beforeAll(async () => {
  service = await startService({ key: KEY });
  await service.stock(...PETS.map((petId) => [petId, 5] as const));
});

/** Mostly a good value, so that a request seldom has more than one fault. */
function mostly<T>(good: fc.Arbitrary<T>, ...bad: fc.Arbitrary<T>[]): fc.Arbitrary<T> {
  return fc.oneof({ arbitrary: good, weight: 4 }, { arbitrary: fc.oneof(...bad), weight: 1 });
}

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((array) => Buffer.from(array).toString('latin1'));
const visible = fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)) });
const fieldValue = fc.string({ unit: 'grapheme-ascii', maxLength: 40 });

const METHODS = ['GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT', 'QUERY', 'get', 'FOO'];
const petId = mostly(
  fc.constantFrom(...PETS),
  fc.bigInt().map(String),
  fc.constantFrom('abc', '01', '1e3', '%31', '%00', '%', '..'),
  visible,
);
const target = mostly(
  fc.oneof({ arbitrary: petId.map((id) => `/v1/inventory/${id}`), weight: 2 }, fc.constant('/v1/inventory')),
  fc.constantFrom('/health/live', '/health/ready', '/openapi.json', '/docs', '/metrics', '/', '*'),
  fc
    .tuple(fc.constantFrom('/', '/v1/inventory?', 'http://inventory.test/'), visible)
    .map(([start, end]) => start + end),
  bytes(20),
);
const quantity = fc.oneof(
  fc.nat({ max: 2_147_483_647 }).map(String),
  fc.constantFrom('5.0', '1e2', '-0', '-1', '2147483647', '2147483648', '1.5', '"5"', 'null', '[5]', '1e400'),
  fc.json({ maxDepth: 4 }),
);
const body = mostly(
  quantity.map((json) => `{"quantity":${json}}`),
  quantity.map((json) => `{"quantity":${json},"quantity":1}`),
  fc.tuple(quantity, fc.json()).map(([json, more]) => `{"quantity":${json},"more":${more}}`),
  fc.nat({ max: 3_000 }).map((length) => '{"quantity":5}'.padEnd(length)),
  fc.json(),
  bytes(1_500),
);

/** A header with a good value, with another value, or no header. */
function header(name: string, good: string, ...bad: string[]): fc.Arbitrary<HeaderLines> {
  const values = mostly(fc.constant(good), fc.constantFrom(undefined, ...bad), fieldValue);
  return values.map((value) => (value === undefined ? [] : [[name, value]]));
}
const authorization = header('Authorization', `Bearer ${KEY}`, 'Bearer', `bearer ${KEY}`, `Basic ${KEY}`);
const mediaType = header('Content-Type', 'application/json', 'text/plain', 'application/json; charset=latin1');

/** Names of headers, and values that the service could understand of them. */
const MORE_HEADERS: readonly (readonly [names: string[], values: string[]])[] = [
  [
    ['If-Match', 'If-None-Match'],
    ['*', '"available-5"', 'W/"available-5"', '"sold-0", "available-5"', '""'],
  ],
  [
    ['Accept-Encoding', 'Accept', 'X-Request-Id', 'Expect', 'Origin', 'Range'],
    ['gzip', '*;q=0', '100-continue'],
  ],
  [
    ['Content-Length', 'Transfer-Encoding', 'Content-Encoding'],
    ['5', '0', '99999', 'chunked', 'gzip'],
  ],
  [
    ['Connection', 'Upgrade', 'Host'],
    ['close', 'upgrade', 'h2c', 'inventory.test', 'a b'],
  ],
];
const oneOfTheseHeaders = MORE_HEADERS.map(([names, values]) =>
  fc.tuple(fc.constantFrom(...names), fc.oneof(fc.constantFrom(...values), fieldValue)),
);
const moreHeaders = fc.array(fc.oneof(...oneOfTheseHeaders, fc.tuple(visible, fieldValue)), { maxLength: 3 });

const question = fc
  .record({
    reading: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'OPTIONS'),
    oddMethod: mostly(fc.constant(''), fc.oneof(fc.constantFrom(...METHODS), visible)),
    target,
    headers: fc.tuple(authorization, mediaType, moreHeaders).map((all) => all.flat()),
    body: mostly<string | undefined>(body, fc.constantFrom(undefined, '')),
  })
  .map(({ reading, oddMethod, target, headers, body }) => ({
    method: oddMethod || (target.startsWith('/v1/inventory/') ? 'PATCH' : reading),
    target,
    headers,
    ...(body !== undefined && { body: Buffer.from(body, 'latin1') }),
  }));

/** The first final answer; later ones on the connection answer bytes behind the request. */
async function finalAnswer(sent: Question): Promise<Answer> {
  const connection = (await Connection.open(service.port)).send(requestBytes(sent));
  connection.finish();
  let answer: Answer;
  do answer = await connection.answer({ toHead: sent.method === 'HEAD', withinMs: 10_000 });
  while (answer.status < 200);
  connection.destroy();
  return answer;
}

/** Expects an Error, or a success: {@link startService} compares successes with the OpenAPI document. */
function expectAnswered(method: string, { status, text }: Answer): void {
  expect(status).toBeLessThan(500);
  if (status < 400 || method === 'HEAD') return;
  const error = JSON.parse(text) as { code: keyof typeof ERRORS };
  expect(error).toEqual({ code: error.code, message: expect.any(String) as string, status });
  expect(ERRORS[error.code].status).toBe(status);
}

interface Row {
  readonly pet_id: string;
  readonly quantity: number;
  readonly changes: number;
}

function stock(): Promise<Row[]> {
  return service.sql<Row>(
    `SELECT *, (SELECT count(*)::int FROM stock_change WHERE pet_id = item.pet_id) AS changes
       FROM inventory_item AS item ORDER BY pet_id`,
  );
}

/** Expects one change of a pet for each update answered 200, and the quantity of one of these answers. */
function expectStock(before: readonly Row[], after: readonly Row[], updates: readonly Answer[]): void {
  const expected = before.map((row) => {
    const answers = updates.filter(({ text }) => text.includes(`"petId":${row.pet_id},`));
    const quantities = answers.map(({ text }) => Number(/"quantity":(\d+)/.exec(text)?.[1]));
    if (answers.length === 0) quantities.push(row.quantity);
    return { ...row, quantity: expect.toBeOneOf(quantities) as number, changes: row.changes + answers.length };
  });
  expect(after).toEqual(expected);
}

it(
  `the service answers ${REQUESTS} random requests with an Error or a documented success, and a refusal changes nothing`,
  async () => {
    const property = fc.asyncProperty(
      fc.array(question, { minLength: IN_FLIGHT, maxLength: IN_FLIGHT }),
      async (questions) => {
        const before = await stock();
        const answers = await Promise.all(questions.map(finalAnswer));
        questions.forEach(({ method }, at) => expectAnswered(method, answers[at] ?? expect.fail('no answer')));
        const updates = answers.filter(({ status }, at) => questions[at]?.method === 'PATCH' && status === 200);
        expectStock(before, await stock(), updates);
      },
    );
    await fc.assert(property, { numRuns: Math.ceil(REQUESTS / IN_FLIGHT) });
  },
  Math.max(60_000, 20 * REQUESTS),
);
