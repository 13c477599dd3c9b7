import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { Failure } from '../errors/error-text.js';
import { ITEM } from '../inventory/stock-item.js';
import { END_MARK } from './stock-file.js';
import { type Ending, readers } from './stock-rows.js';

const CSV = 'petId,quantity,status\n-12,5678,sold\n8,40,available\n';
const FILES = {
  csv: [
    CSV,
    'status,petId,quantity\nsold,-12,5678\navailable,8,40\n',
    'status,quantity,petId\nsold,5678,-12\nsold,40,81\n',
  ],
  ndjson: ['{"petId":-12,"quantity":5678,"status":"sold"}\n{"petId":8,"quantity":40,"status":"available"}\n'],
  json: ['[\n {"petId":-12,"quantity":5678,"status":"sold"}\n,{"petId":8,"quantity":40,"status":"available"}\n]'],
};
const CASES = Object.entries(FILES).flatMap(([format, texts]) =>
  texts.map((text) => [format as keyof typeof FILES, text] as const),
);

/** What an import would take for the pets of a text, or undefined when it refuses the text. */
async function petsOf(format: keyof typeof FILES, text: string, ending: Ending): Promise<string[] | undefined> {
  try {
    const parts = Readable.from([text.slice(0, 9), text.slice(9)]);
    const rows = (await Readable.from(readers[format](parts, ending)).toArray()).flat() as string[];
    const fault = rows.find((row) => !/^\d+,,/.test(row));
    return fault === undefined ? rows : undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(Failure);
    return undefined;
  }
}

/** The faults of a text, each with its place, as rows begin. */
async function faultsOf(format: keyof typeof FILES, text: string): Promise<string[]> {
  const rows = await Readable.from(readers[format](Readable.from([text]), 'line break')).toArray();
  const faults = (rows.flat() as string[]).filter((row) => row.endsWith(',,,\n') && !/^\d+,,/.test(row));
  return faults.map((row) => row.slice(0, -4).replaceAll('""', "'"));
}

describe.each(CASES)('%s that is cut: %j', (format, text) => {
  const cuts = (whole: string) => Array.from({ length: whole.length }, (_, at) => whole.slice(0, at));

  it('is refused wherever it was cut when an end mark is wanted', async () => {
    const whole = format === 'json' ? text : `${text}${END_MARK}\n`;
    expect(await petsOf(format, whole, 'mark')).toHaveLength(2);
    for (const cut of cuts(whole)) expect([cut, await petsOf(format, cut, 'mark')]).toEqual([cut, undefined]);
  });

  it('gives no pet another stock than its own, from a pipe or a file', async () => {
    const pets = (await petsOf(format, text, 'line break')) ?? [];
    expect(pets).toHaveLength(2);
    for (const ending of ['line break', 'whole line'] as const) {
      for (const cut of cuts(text)) {
        for (const pet of (await petsOf(format, cut, ending)) ?? [])
          expect([cut, pets]).toEqual([cut, expect.arrayContaining([pet])]);
      }
    }
  });
});

describe('the last line of a file', () => {
  it.each([
    [CSV, true],
    ['quantity,status,petId\n5678,sold,9', false],
    ['petId,status,quantity\n7,sold,5678', false],
    ['petId,status,quantity\n7,sold,214748364', false],
    ['petId,status,quantity\n7,sold,"5678"', true],
    ['petId,status,quantity\n7,sold,2147483647', true],
    ['petId,status,quantity\n7,sold,0', true],
  ])('may do without a line break only if it cannot have been longer: %j', async (text, isTaken) => {
    expect((await petsOf('csv', text, 'line break')) !== undefined).toBe(text === CSV);
    expect((await petsOf('csv', text.trimEnd(), 'whole line')) !== undefined).toBe(isTaken);
  });

  it.each([`${CSV}${END_MARK}\n9,1,sold\n`, `${CSV}${END_MARK}\n${END_MARK}\n`, `${CSV}# failed\n`])(
    'is nothing behind the end mark, and no failure: %j',
    async (text) => {
      expect(await petsOf('csv', text, 'whole line')).toBeUndefined();
    },
  );

  it('may be empty behind the end mark, which needs no line break in a file', async () => {
    expect(await petsOf('csv', `${CSV}${END_MARK}\n\n \n`, 'mark')).toHaveLength(2);
    expect(await petsOf('csv', `${CSV}${END_MARK}`, 'whole line')).toHaveLength(2);
  });

  it('is nothing behind an end mark that is the first line', async () => {
    expect(await petsOf('ndjson', `${END_MARK}\n${FILES.ndjson.join('')}`, 'whole line')).toBeUndefined();
  });
});

describe('a line of CSV', () => {
  it.each([';', '\t', '|'])('must have commas, and not %j', async (separator) => {
    const rows = readers.csv(Readable.from([CSV.replaceAll(',', separator)]), 'line break');
    await expect(rows.next()).rejects.toThrow(
      `the fields seem to be separated by ${JSON.stringify(separator)}; use commas`,
    );
  });

  it('is refused when it has an empty field too many', async () => {
    expect(await petsOf('csv', 'status,petId,quantity\n"sold",8,5\n', 'line break')).toHaveLength(1);
    expect(await petsOf('csv', 'status,petId,quantity\n"sold",,8,5\n', 'line break')).toBeUndefined();
  });
});

it('reads CRLF, quotes, empty lines, and JSON with any space and numbers such as 2e2', async () => {
  const csv = '"petId",quantity,"status"\r\n\r\n"1",2,sold\r\n3,"4","pending"\r\n';
  expect(await petsOf('csv', csv, 'whole line')).toEqual(['3,,1,2,sold\n', '4,,3,4,pending\n']);
  const json = `[ {"status":"sold","quantity":2e2,"petId":1},\r\n{"petId":3,\n"quantity":-0.0,"status":"pend\\u0069ng"} ]\r\n`;
  expect(await petsOf('json', json, 'whole line')).toEqual(['1,,1,200,sold\n', '2,,3,0,pending\n']);
});

it('tells the wrong value and its pet, shortened and without control characters', async () => {
  const items = [
    `{"petId":"5","quantity":1,"status":"sold"}`,
    `{"petId":6,"quantity":[1],"status":"\\u001b[2J\\u009b${'x'.repeat(50)}"}`,
    `{"petId":7,"quantity":null}`,
    `{"petId":8,"quantity":1,"status":"sold: yes"}`,
    String.raw`{"petId":9,"quantity":1,"status":"sold\": yes"}`,
    `{"petId":10,"quantity":-1,"status":"sold","status":"sold"}`,
    `{"petId":11,"quantity":1e999,"status":"sold","\u202e${'x'.repeat(50)}":1}`,
    '[5,5,"sold"]',
    '"sold"',
  ];
  expect(await faultsOf('ndjson', `${items.join('\n')}\n`)).toEqual([
    `1,"petId must be ${ITEM.petId.rule}, not '5'"`,
    `2,"quantity must be ${ITEM.quantity.rule}, not '[1]' (pet 6)"`,
    `2,"status must be ${ITEM.status.rule}, not '\\u001b[2J\ufffd${'x'.repeat(35)}…' (pet 6)"`,
    '3,quantity is missing (pet 7)',
    '3,status is missing (pet 7)',
    `4,"status must be ${ITEM.status.rule}, not 'sold: yes' (pet 8)"`,
    String.raw`5,"status must be ${ITEM.status.rule}, not 'sold\': yes' (pet 9)"`,
    `6,"quantity must be ${ITEM.quantity.rule}, not '-1' (pet 10)"`,
    '6,has a member twice',
    `7,"member '\ufffd${'x'.repeat(39)}…' is unknown"`,
    `7,"quantity must be ${ITEM.quantity.rule}, not 'Infinity' (pet 11)"`,
    ...['8,must be a JSON object', '9,must be a JSON object'],
  ]);
  expect(await faultsOf('csv', `${CSV}5,5\n6,"a""b""c",sold\n${END_MARK}\n9,1,sold\n`)).toEqual([
    '4,"must have 3 fields, not 2"',
    `5,"quantity must be ${ITEM.quantity.rule}, not 'a\\'b\\'c' (pet 6)"`,
    '7,comes after the end mark in line 6',
  ]);
});

it.each([
  ['csv', 'petId,quantity,name\n', 'the header must be petId,quantity,status, in any order, not "petId,quantity,name"'],
  ['csv', 'petId,quantity;a\n', `the header must be petId,quantity,status, in any order, not "petId,quantity;a"`],
  ['csv', 'a"b\n', String.raw`the header must be petId,quantity,status, in any order, not "a\"b"`],
  ['json', '\u009b', `the file is not valid JSON: Unexpected token '\ufffd', "\ufffd" is not valid JSON`],
] as const)('tells what is wrong with a whole file of %s: %j', async (format, text, told) => {
  await expect(faultsOf(format, text)).rejects.toThrow(new Failure(told));
});

it('counts empty lines, too', async () => {
  const text = '\n\npetId,quantity,status\n\n1,2,sold\n \n2,-1,sold\n';
  const rows = (await Readable.from(readers.csv(Readable.from([text]), 'line break')).toArray()).flat();
  expect(rows.map((row: string) => row.slice(0, 11))).toEqual(['5,,1,2,sold', '7,,2,,sold\n', '7,"quantity']);
});

describe('a JSON array', () => {
  it('has its items counted, however many there are, and gives the rows of ten thousand at a time', async () => {
    const items = Array.from({ length: 20_001 }, (_, at) => ({ petId: at, quantity: 1, status: 'sold' }));
    const slices = await Readable.from(readers.json(Readable.from([JSON.stringify(items)]))).toArray();
    expect(slices.map((rows: string[]) => [rows.length, rows[0]])).toEqual([
      [10_000, '1,,0,1,sold\n'],
      [10_000, '10001,,10000,1,sold\n'],
      [1, '20001,,20000,1,sold\n'],
    ]);
  });

  it('may have a hundred million characters, in however many parts it comes', async () => {
    const itemsIn = (length: number) =>
      Readable.from(readers.json(Readable.from(['[', ' '.repeat(length - 2), ']']))).toArray();
    expect(await itemsIn(100_000_000)).toEqual([]);
    await expect(itemsIn(100_000_001)).rejects.toThrow(
      new Failure('the JSON array is longer than 100000000 characters; ndjson can have any length'),
    );
  });
});

it('takes 10,000 characters of a line that comes in parts, and refuses more', async () => {
  const rowsOf = (length: number) => {
    const parts = [`\n${'{"petId":1,'.padEnd(length)}`, '"quantity":2,"status":"sold"}\n'];
    return Readable.from(readers.ndjson(Readable.from(parts), 'line break')).toArray();
  };
  expect((await rowsOf(10_000)).flat()).toEqual(['2,,1,2,sold\n']);
  await expect(rowsOf(10_001)).rejects.toThrow('line 2 is longer than 10000 characters');
});
