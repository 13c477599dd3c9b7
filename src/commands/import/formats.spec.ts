import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../lib/postgres/index.ts';
import { ITEM, MEMBERS } from '../../inventory/item.ts';
import { END_MARK } from '../export.ts';
import { readRows } from './formats.ts';
import { HEADER_RULE } from './problems.ts';
import { StockFile } from './rows.ts';

const CSV = 'petId,quantity,status\n-12,5678,sold\n8,40,available\n';
const NDJSON = '{"petId":-12,"quantity":5678,"status":"sold"}\n{"petId":8,"quantity":40,"status":"available"}\n';
const ARRAY = '[\n {"petId":-12,"quantity":5678,"status":"sold"}\n,{"petId":8,"quantity":40,"status":"available"}\n]';

const CHANGE = '42 2026-11-25T12:00:00.000Z';

/**
 * The rows of a text, as an import takes them: petId, quantity, status, made from.
 * @throws Failure with the problems
 */
async function rowsOf(text: string | string[], needsMark = false, file = new StockFile()) {
  const rows = await Readable.from(readRows(Readable.from([text].flat()), needsMark, file)).toArray();
  file.problems.refuse(file.unit);
  const lines = rows.join('').split('\n').slice(0, -1);
  // Other members are left out, and so is the number of the line.
  return lines.map((row) => row.split(',')).map((row) => [...row.slice(1, 4), row[MEMBERS.length + 1]].join());
}

/** The lines for the problems of a text, without their count and the advice. */
async function problemsOf(text: string): Promise<string[]> {
  const failure = await rowsOf(text).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(Failure);
  const { message } = failure as Failure;
  const lines = message.split('\n');
  const count = lines.findIndex((line) => line.startsWith('problems in the file'));
  return count < 0 ? [message] : lines.slice(0, count);
}

describe.each([
  ['CSV', CSV],
  ['CSV with the quantity last', 'status,petId,quantity\nsold,-12,5678\navailable,8,40\n'],
  ['CSV with the petId last', 'status,quantity,petId\nsold,5678,-12\nsold,40,81\n'],
  ['JSON in lines', NDJSON],
  ['a JSON array', ARRAY],
])('%s that is cut', (_, text) => {
  const cuts = (whole: string) => Array.from({ length: whole.length }, (_, at) => whole.slice(0, at));
  const taken = (cut: string, needsMark = false) =>
    rowsOf([cut.slice(0, 9), cut.slice(9)], needsMark).catch(() => undefined);

  it('is refused wherever it was cut when an end mark is wanted', async () => {
    for (const mark of text === ARRAY ? [''] : [`${END_MARK}\n`, `${END_MARK} ${CHANGE}`, `"${END_MARK} ${CHANGE}`]) {
      const whole = `${text}${mark}`;
      expect(await taken(whole, true)).toHaveLength(2);
      for (const cut of cuts(whole)) expect([cut, await taken(cut, true)]).toEqual([cut, undefined]);
    }
  });

  it('gives no pet another stock than its own', async () => {
    const pets = await taken(text);
    expect(pets).toHaveLength(2);
    for (const cut of cuts(text))
      for (const pet of (await taken(cut)) ?? []) expect([cut, pets]).toEqual([cut, expect.arrayContaining([pet])]);
  });
});

describe('the last line of a file', () => {
  it.each([
    ['petId,status,quantity\n7,sold,5678', false],
    ['petId,status,quantity\n7,sold,214748364', false],
    ['petId,status,quantity\n7,sold,"5678"', true],
    ['petId,status,quantity\n7,sold,2147483647', true],
    ['petId,quantity,exported\n7,13,7:sold-12:', true],
    ['petId,quantity,exported\n7,13,7:sold-12', false],
    ['petId,quantity,exported\n7,13,', false],
  ])('may do without a line break only if it cannot have been longer: %j', async (text, isTaken) => {
    if (isTaken) expect(await rowsOf(text)).toHaveLength(1);
    else
      await expect(rowsOf(text)).rejects.toThrow(
        /^line 2: ends without a line break[^]*\nIf the file is whole, write # end into the first cell below the last row, and save the file again$|^line 2: exported must be/,
      );
  });

  it.each([
    ['# end', undefined],
    ['# end,,,', undefined],
    [`"# end ${CHANGE}";;`, { id: '42', at: '2026-11-25T12:00:00.000Z' }],
  ])('may be the end mark, which may say when the file was made: %s', async (mark, newest) => {
    const file = new StockFile();
    expect(await rowsOf(`${CSV}${mark}\n\n ,\n`, true, file)).toHaveLength(2);
    expect(file.newest).toEqual(newest);
    expect(await problemsOf(`${CSV}${mark}\n9,1,sold\n`)).toEqual(['line 5: comes after the end mark in line 4']);
  });

  it('shows the end of the line before it, without its own', async () => {
    expect(await rowsOf('petId,quantity\n7,5678\n# end')).toHaveLength(1);
  });
});

const MISFIT =
  'must have the values of the 3 columns of the header, and no other; quotes stand around whole values, without line breaks';

describe('what spreadsheets do to text', () => {
  const rows = ['1,13,available', '9912140633506421,7,sold'];
  const lines = ['petId,quantity,status', ...rows];
  const file = (separator: string, end: string) => lines.map((line) => line.replaceAll(',', separator) + end).join('');

  it.each([
    ['semicolons and CRLF', file(';', '\r\n')],
    ['tabs and CR', file('\t', '\r')],
    ['sep=', `\ufeffsep=;\r\n${file(';', '\r\n')}`],
    ['two marks, and another case in the header', `\ufeff\ufeff${file(',', '\n').replace('petId', 'PETID')}`],
    ['quotes', file(',', '\n').replaceAll(/\w+/g, '"$&"')],
    ['empty rows', `,,\n${file(',', '\n').replaceAll('\n', '\n,,\n \u00a0,\u200b, \n\n"","",""\n')}`],
    [
      'empty columns',
      file(',', ',,\n')
        .replace('petId,', ',petId,')
        .replaceAll(/^(?=[19])/gm, ' ,'),
    ],
    ['blanks of every kind', file(',', '\n').replaceAll(/\w+/g, ' \u00a0\u202f$&\u200b\u2060\u3000\u200e ')],
    ...[',', ';', '\t'].map((separator) => {
      const lines = file(separator, '\n').replace(/1.13./, `1.0${separator}"13,00"${separator}`);
      return [
        `fractions of zero in a file with ${JSON.stringify(separator)}`,
        lines.replace(/.7./, `${separator}7.${separator}`),
      ];
    }),
    ['exponents', file(',', '\n').replace('13', '1.3E+001').replace(',7,', ',7e0,')],
  ])('is taken: %s', async (_, text) => {
    expect(await rowsOf(text)).toEqual(rows.map((row) => `${row},`));
  });

  it.each([
    ...['12.000', '1,234', "1'234", '1 234', '1\u00a0234', '\u22125', '12.5'].map((text) => [
      `"${text}",sold`,
      `quantity must be ${ITEM.quantity.rule}, not "${text}" (pet 5)`,
    ]),
    ['7,', 'status is missing (pet 5)'],
    ...['7,sold,x', '7', '7,"so"ld', '7,"sold', '7,="sold"'].map((fields) => [fields, MISFIT]),
  ])('is refused where its meaning is in doubt: %j', async (fields, problem) => {
    expect(await problemsOf(`petId,quantity,status,\n5,${fields}\n`)).toEqual([`line 2: ${problem}`]);
  });
});

const badNumbers = ['abc', '-0', '+5', '01', '0x10', '1e-3', '1.5', '5 5', '1_000', '٣', 'NaN', '5e', '.5', '1e999'];
const badPetIds = [...badNumbers, '9223372036854775808', '-9223372036854775809', '9'.repeat(30)];
const badQuantities = [...badNumbers, '-1', '2147483648', '99999999999999999999'];
const badStatuses = ['Available', 'gone', '0', 'constructor'];

it.each([
  ...badPetIds.map((petId) => ['petId', `petId,quantity,status\n${petId},5,sold\n`] as const),
  ...badQuantities.map((quantity) => ['quantity', `petId,quantity,status\n5,${quantity},sold\n`] as const),
  ...badStatuses.map((status) => ['status', `petId,quantity,status\n5,5,${status}\n`] as const),
  ...['"5"', 'true', '[5]', '{}', '1.5', '9223372036854775808'].map(
    (petId) => ['petId', `{"petId":7,"quantity":5}\n{"petId":${petId},"quantity":5,"status":"sold"}\n`] as const,
  ),
  ...['"5"', 'false', '[5]', '-1', '2147483648', '1e999'].map(
    (quantity) =>
      ['quantity', `{"petId":7,"quantity":5}\n{"petId":5,"quantity":${quantity},"status":"sold"}\n`] as const,
  ),
  ...['"Sold"', '1', '["sold"]'].map(
    (status) => ['status', `[{"petId":7,"quantity":5},{"petId":5,"quantity":5,"status":${status}}]`] as const,
  ),
])('a wrong %s is refused: %j', async (name, text) => {
  const [problem = '', ...others] = await problemsOf(text);
  expect(problem).toMatch(new RegExp(`^(line|item) 2: ${name} must be .*, not "`));
  expect(others).toEqual([]);
});

describe('an object of JSON', () => {
  it('may have any space, and numbers such as 2e2', async () => {
    const text = `[ {"status":"sold","quantity":2e2,"petId":1},\r\n{"petId":3,\n"quantity":-0.0,"status":"pend\\u0069ng"} ]\r\n`;
    expect(await rowsOf(text)).toEqual(['1,200,sold,', '3,0,pending,']);
    expect(await rowsOf('{"petId":7.000,"quantity":12.000}\n{"petId":9007199254740993,"quantity":1e0}')).toEqual([
      '7,12,,',
      '9007199254740993,1,,',
    ]);
    expect(await rowsOf('{"petId":1,"quantity":-0}\n{"petId":-0,"quantity":0e5}\n')).toEqual(['1,0,,', '0,0,,']);
  });

  it.each(['0.99999999999999999999', '4.0000000000000000000001', '2147483647.00000001', '1e-400'])(
    'has numbers that are checked before JavaScript would round them: %s',
    async (number) => {
      for (const text of [`{"petId":5,"quantity":${number}}\n`, `[{"petId":5,"quantity":${number}}]`])
        expect(await problemsOf(text)).toEqual([
          expect.stringMatching(new RegExp(`^(line|item) 1: quantity must be .*, not "${number}" \\(pet 5\\)$`)),
        ]);
    },
  );

  it.each(['"petId":2', '"quantity":5', '"petI\\u0064":1', '"status":"sold","status":"sold"'])(
    'is refused if it has a member twice: %s',
    async (members) => {
      const item = `{"petId":1,"quantity":5,${members}}`;
      const problem = 'must be one whole JSON object that has each member once';
      expect(await problemsOf(`${item}\n`)).toEqual([`line 1: ${problem}`]);
      expect(await problemsOf(`${NDJSON}${item}\n`)).toEqual([`line 3: ${problem}`]);
      const inArray = 'the JSON array is not whole, not valid, or has a member twice in one item. Export again';
      expect(await problemsOf(`[{"petId":3,"quantity":5},\n${item}]`)).toEqual([inArray]);
    },
  );

  it.each([
    ...['[5,5,"sold"]', '{"petId":5,"quantity":5'].map((line) => [
      line,
      'must be one whole JSON object that has each member once',
    ]),
    ['{"petId":5,"quantity":null}', 'quantity is missing (pet 5)'],
    ['{"petId":5,"quantity":5,"name":"Rex"}', 'member "name" is unknown'],
    ['{"petId":5,"quantity":5,"__proto__":1}', 'member "__proto__" is unknown'],
    [
      `{"petId":5,"quantity":5,"status":"\\u001b\\u009b${'x'.repeat(50)}"}`,
      `status must be ${ITEM.status.rule}, not "\ufffd\ufffd${'x'.repeat(38)}…" (pet 5)`,
    ],
  ])('is refused: %j', async (line, problem) => {
    expect(await problemsOf(`${NDJSON}${line}\n`)).toEqual([`line 3: ${problem}`]);
  });
});

describe('a row that says what it was made from', () => {
  const MADE_FROM = 'petId,quantity,status,exported\n';

  it.each([
    ['7,12,available,7:available-12:', '7,12,available,same'],
    ['7,13,available,7:available-12:', '7,13,available,available-12'],
    ['7,12,sold,', '7,12,sold,new'],
    ['7,12,sold', '7,12,sold,new'],
    ['9912140633506420,5,sold,9912140633506421:sold-5:', '9912140633506421,5,sold,same'],
    ['9.91214063350642E+15,6,sold,9912140633506421:sold-5:', '9912140633506421,6,sold,sold-5'],
    ['-9223372036854780000,6,sold,-9223372036854775808:sold-5:', '-9223372036854775808,6,sold,sold-5'],
    ['9912140633506420,6,sold,9912140633506429:sold-5:', '9912140633506429,6,sold,sold-5'], // cut off
    ['1.25967478138487E+018,6,sold,1259674781384864919:sold-5:', '1259674781384864919,6,sold,sold-5'], // LibreOffice
    ['9223372036854776000,6,sold,9223372036854775807:sold-5:', '9223372036854775807,6,sold,sold-5'], // JavaScript
  ])('is known by the id in it: %s', async (row, known) => {
    expect(await rowsOf(`${MADE_FROM}${row}\n`)).toEqual([known]);
  });

  it('may be JSON, and lack the status', async () => {
    const members = ['', ',"exported":null', ',"exported":"7:sold-13:"', ',"exported":"7:sold-12:"'];
    const text = members.map((exported) => `{"petId":7,"quantity":13${exported}}\n`).join('');
    expect(await rowsOf(text)).toEqual(['', 'new', 'same', 'sold-12'].map((made) => `7,13,,${made}`));
  });

  it.each([
    ['8,12,available,7:available-12:', 'petId is 8, but exported is of pet 7: was one column sorted alone?'],
    ...['9912140633506430', '9912140633506422', '9912140633506419', '99121406335064'].map((petId) => [
      `${petId},5,sold,9912140633506421:sold-5:`,
      `petId is ${petId}, but exported is of pet`,
    ]),
    [
      '7,12,sold,7:available-12',
      'exported must be as the export wrote it, or empty for a new pet, not "7:available-12"',
    ],
  ])('is refused where it fits no pet: %s', async (row, problem) => {
    expect((await problemsOf(`${MADE_FROM}${row}\n`)).join()).toContain(`line 2: ${problem}`);
  });
});

it.each([
  ...[
    ['petId,quantity,name\n', '"name" is unknown'],
    ['petId,status,name\n', '"quantity" is missing'],
    ['petId,quantity,petId\n', '"petId" is there twice'],
  ].map(([text = '', what = '']) => [text, `${HEADER_RULE}: the column ${what}`]),
  ...['Stock of May,,\npetId,quantity\n', '5,5,sold\n', 'petId|quantity\n', '<!DOCTYPE html>\n'].map((text) => [
    text,
    `the file has no stock that an import can read: its first line is no header. Save it as CSV UTF-8 (*.csv); ${HEADER_RULE}`,
  ]),
  ['{\n"petId": 1', 'the file has no stock that an import can read: its first line is no JSON. Save it as CSV UTF-8'],
  ['', 'the file has no stock that an import can read: it is empty'],
  [
    '[{"petId":1},\n{"pet',
    'the JSON array is not whole, not valid, or has a member twice in one item (line 2 column 6). Export again',
  ],
  [`${CSV}\n# failed\n`, 'line 5 says that the export failed, so pets are missing. Export again'],
  [`${CSV}${'x'.repeat(10_001)}`, 'line 4 is longer than 10000 characters'],
])('a whole file is refused by one line: %j', async (text, problem) => {
  const problems = await problemsOf(text);
  expect(problems).toEqual([expect.stringContaining(problem)]);
});

it('blanks within a cell take no time, however many they are', async () => {
  const row = `5,5,so${' '.repeat(9_900)}ld\n`;
  const startedAt = performance.now();
  expect(await problemsOf(`petId,quantity,status\n${row.repeat(100)}`)).toHaveLength(20);
  expect(performance.now() - startedAt).toBeLessThan(5_000);
});

it('twenty problems are shown, and the first of each further kind; all are counted, empty lines too', async () => {
  const rows = Array.from({ length: 40 }, (_, at) => `${at},${at === 35 ? 'x' : 5},${at < 30 ? 'gone' : 'sold'}\n`);
  const failure = await rowsOf(`\n\npetId,quantity,status\n${rows.join('')}`).catch((error: unknown) => error);
  const lines = (failure as Failure).message.split('\n');
  expect(lines).toHaveLength(22);
  expect(lines[0]).toBe(`line 4: status must be ${ITEM.status.rule}, not "gone" (pet 0)`);
  expect(lines[20]).toBe(`line 39: quantity must be ${ITEM.quantity.rule}, not "x" (pet 35)`);
  expect(lines[21]).toBe('problems in the file, all together: 31; nothing was written');
});
