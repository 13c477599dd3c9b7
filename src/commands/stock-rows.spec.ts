import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { Failure } from '../errors/error-text.js';
import { ITEM } from '../inventory/stock-item.js';
import { END_MARK } from './stock-file.js';
import { type Ending, type FileFacts, readers } from './stock-rows.js';

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
  const faults = (rows.flat() as string[]).filter((row) => row.endsWith(',,,,\n') && !/^\d+,,/.test(row));
  return faults.map((row) => row.slice(0, -5).replaceAll('""', "'"));
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
  it('must not have | between its fields', async () => {
    const rows = readers.csv(Readable.from([CSV.replaceAll(',', '|')]), 'line break');
    await expect(rows.next()).rejects.toThrow('the fields seem to be separated by "|"; use commas');
  });

  it('is refused when it has an empty field too many', async () => {
    expect(await petsOf('csv', 'status,petId,quantity\n"sold",8,5\n', 'line break')).toHaveLength(1);
    expect(await petsOf('csv', 'status,petId,quantity\n"sold",,8,5\n', 'line break')).toBeUndefined();
  });
});

describe('what spreadsheets and editors do to text', () => {
  const rows = ['1,13,available', '9912140633506421,7,sold'];
  const lines = ['petId,quantity,status', ...rows];
  const file = (separator: string, end: string) => lines.map((line) => line.replaceAll(',', separator) + end).join('');

  it.each([
    ['semicolons', file(';', '\r\n')],
    ['tabs', file('\t', '\n')],
    ['line ends of an old Mac', file(',', '\r')],
    ['line ends of Unicode', file(',', '\u2028')],
    ['mixed line ends', `${lines[0]}\r\n${rows[0]}\r${rows[1]}\n`],
    ['sep=', `sep=;\r\n${file(';', '\r\n')}`],
    ['sep= between quotes, with |', `"sep=|"\n${file('|', '\n')}`],
    ['another case in the header', file(',', '\n').replace('petId,quantity', 'PetID,QUANTITY')],
    ['the header twice, as in joined files', file(',', '\n').replace('\n1,', `\n\ufeff${lines[0]}\n1,`)],
    ['empty rows', file(',', '\n').replaceAll('\n', '\n,,\n \u00a0,\u200b, \n"","",""\n')],
    [
      'empty columns',
      file(',', ',,\n')
        .replace('petId,', ',petId,')
        .replaceAll(/^(?=[19])/gm, ' ,'),
    ],
    ['more empty fields than columns', file(',', '\n').replaceAll('sold', 'sold,,')],
    ['blanks of every kind', file(',', '\n').replaceAll(/\w+/g, ' \u00a0\u202f$&\u200b\u2060\u3000\u200e ')],
    ['blanks round quotes', file(',', '\n').replaceAll(/\w+/g, ' "$&" ').replace('13', ' 13 ')],
    ['="…", which keeps digits', file(',', '\n').replace('9912140633506421', '="9912140633506421"')],
    ['="…" between quotes', file(',', '\n').replace('9912140633506421', '"=""9912140633506421"""')],
    ['fractions of zero', file(',', '\n').replace('1,13,', '1.0,13.00,').replace(',7,', ',7.,')],
    ['fractions of zero after a comma', file(';', '\n').replace('1;13;', '1,0;13,00;')],
    ['exponents', file(',', '\n').replace('13', '1.3E+001').replace(',7,', ',7e0,')],
    ['the end of a file in DOS', `${file(',', '\n')}\u001a`],
    ['empty columns behind the end mark', `${file(',', '\n')}# end,,\n`],
  ])('is taken: %s', async (_, text) => {
    const pets = await petsOf('csv', text, 'whole line');
    expect(pets?.map((row) => row.replace(/^\d+,,/, ''))).toEqual(rows.map((row) => `${row},\n`));
  });

  it.each([
    ['12.000,sold', `quantity must be ${ITEM.quantity.rule}, without thousands separators, not '12.000' (pet 5)`],
    ['"1,234",sold', `quantity must be ${ITEM.quantity.rule}, without thousands separators, not '1,234' (pet 5)`],
    [
      '1\u00a0234,sold',
      `quantity must be ${ITEM.quantity.rule}, without thousands separators, not '1\u00a0234' (pet 5)`,
    ],
    ['12.5,sold', `quantity must be ${ITEM.quantity.rule}, not '12.5' (pet 5)`],
    ['13\ufffd,sold', 'quantity has a character that is not in UTF-8; save the file as CSV UTF-8 (pet 5)'],
    ['7,sold,x', 'has a value in a column without a name'],
    ['7', 'must have 4 fields, not 2'],
  ])('is refused where its meaning is in doubt: %j', async (fields, fault) => {
    const [told = ''] = await faultsOf('csv', `petId,quantity,status,\n5,${fields}\n`);
    expect(told.replace(/^2,"?|",?$|,$/g, '')).toBe(fault);
  });

  it('is told as it is written, with its comma', async () => {
    const faults = await faultsOf('csv', 'petId;quantity;status\n5;12,5;sold\n9,91214E+15;5;sold\n');
    expect(faults.map((fault) => /'.*?'/.exec(fault)?.[0])).toEqual(["'12,5'", "'9,91214E+15'"]);
  });

  it.each(['9.91214063350642E+15', '9912140633506421.0', '9.91214e15'])('calls %s rounded', async (petId) => {
    const [told] = await faultsOf('csv', `petId,quantity,status\n${petId},5,sold\n`);
    expect(told).toContain(`petId '${petId}' is rounded: a spreadsheet keeps 15 digits`);
    expect(await faultsOf('ndjson', `{"petId":${petId},"quantity":5,"status":"sold"}\n`)).toHaveLength(1);
  });

  it.each([
    ['csv', '{"petId":1}\n', 'the file is no CSV, but JSON in lines; add --format ndjson'],
    ['csv', '[\n{"petId":1}]', 'the file is no CSV, but a JSON array; add --format json'],
    ['csv', 'pet\ufffd\ufffd\n', 'the file is no text in UTF-8; save it as CSV UTF-8'],
    ['csv', ' \n', 'the file is empty; the header must be petId,quantity,status, in any order'],
    ['ndjson', '[\n{"petId":1}]', 'the file is a JSON array; add --format json'],
    ['ndjson', 'petId,quantity\n1,2\n', 'the file is not JSON, it seems to be CSV; add --format csv'],
    ['json', 'petId,quantity\n1,2\n', 'the file is not valid JSON: it seems to be CSV; add --format csv'],
    [
      'json',
      '{"petId":1}\n{"petId":2}',
      'the file is not valid JSON: it seems to be JSON in lines; add --format ndjson',
    ],
    [
      'json',
      '[{"petId":1},\n{"pet',
      'the file is not valid JSON (line 2 column 6): it is cut, or somebody edited it; export it again',
    ],
    ['json', '[{"petId":1}\n# failed\n', 'the file is not valid JSON: its export failed; export again'],
    ['json', '', 'the file is not valid JSON: it is empty'],
  ] as const)('is told once where it is no %s: %j', async (format, text, told) => {
    await expect(faultsOf(format, text)).rejects.toThrow(new Failure(told));
  });
});

describe('a row that tells what it was made from', () => {
  const MADE_FROM = 'petId,quantity,status,exported\n';
  const rowOf = async (row: string, header = MADE_FROM) => {
    const pets = await petsOf('csv', `${header}${row}\n`, 'line break');
    return pets?.map((each) => each.slice(3, -1)).join();
  };

  it.each([
    ['7,12,available,7:available-12:', '7,12,available,same'],
    [' 7 ,12.0,available,7:available-12: ', '7,12,available,same'],
    ['7,13,available,7:available-12:', '7,13,available,available-12'],
    ['7,12,sold,7:available-12:', '7,12,sold,available-12'],
    ['7,12,sold,', '7,12,sold,new'],
    ['7,12,sold', '7,12,sold,new'],
    ['9912140633506420,5,sold,9912140633506421:sold-5:', '9912140633506421,5,sold,same'],
    ['9.91214063350642E+15,6,sold,9912140633506421:sold-5:', '9912140633506421,6,sold,sold-5'],
    ['9.91214E+15,6,sold,9912140633506421:sold-5:', '9912140633506421,6,sold,sold-5'],
    ['9912140633506420.0,6,sold,9912140633506421:sold-5:', '9912140633506421,6,sold,sold-5'],
    ['9.22337203685478E+18,6,sold,9223372036854775807:sold-5:', '9223372036854775807,6,sold,sold-5'],
    ['-9223372036854780000,6,sold,-9223372036854775808:sold-5:', '-9223372036854775808,6,sold,sold-5'],
    ['9223372036854775807,6,sold,9223372036854775807:sold-5:', '9223372036854775807,6,sold,sold-5'],
  ])('is known by the id in it: %s', async (row, known) => {
    expect(await rowOf(row)).toBe(known);
  });

  it('needs no status, and its columns may stand in any order', async () => {
    expect(await rowOf('12,7:available-12:,7', 'quantity,exported,petId\n')).toBe('7,12,,same');
    expect(await rowOf('2,7:available-12:,7', 'quantity,exported,petId\n')).toBe('7,2,,available-12');
  });

  it.each([
    ['8,12,available,7:available-12:', 'petId is 8, but exported is of pet 7: was one column sorted alone?'],
    ['9912140633506430,5,sold,9912140633506421:sold-5:', 'petId is 9912140633506430, but exported is of pet'],
    ['8.91214E+15,5,sold,9912140633506421:sold-5:', 'petId is 8912140000000000, but exported is of pet'],
    [
      '7,12,sold,7:available-12',
      "exported must be as the export wrote it, or empty for a new pet, not '7:available-12'",
    ],
    ['7,12,sold,x', "exported must be as the export wrote it, or empty for a new pet, not 'x'"],
    ['9.91214E+15,6,sold,', "petId '9.91214E+15' is rounded"],
  ])('is refused where it fits no pet: %s', async (row, fault) => {
    expect((await faultsOf('csv', `${MADE_FROM}${row}\n`)).join()).toContain(fault);
  });

  it('is whole without a line break if its last colon is there', async () => {
    const pets = (row: string) => petsOf('csv', `${MADE_FROM}${row}`, 'whole line');
    expect(await pets('7,13,available,7:available-12:')).toHaveLength(1);
    for (const cut of ['7,13,available,7:available-12', '7,13,available,', '7,13,available'])
      expect(await pets(cut)).toBeUndefined();
  });

  it('is a member in JSON', async () => {
    const item = (exported: string) => `{"petId":7,"quantity":13,"status":"sold"${exported}}`;
    const members = ['', ',"exported":null', ',"exported":""', ',"exported":"7:sold-13:"', ',"exported":"7:sold-12:"'];
    const rows = await petsOf('ndjson', `${members.map(item).join('\n')}\n`, 'line break');
    expect(rows?.map((row) => row.slice(3, -1))).toEqual(
      ['', 'new', 'new', 'same', 'sold-12'].map((made) => `7,13,sold,${made}`),
    );
  });
});

describe('the end mark', () => {
  it.each([
    ['# end', undefined],
    ['# end,,,', undefined],
    ['# end 42 2026-11-25T12:00:00.000Z', { id: '42', at: '2026-11-25T12:00:00.000Z' }],
    ['# end 42 2026-11-25T12:00:00.000Z;;', { id: '42', at: '2026-11-25T12:00:00.000Z' }],
  ])('tells when the file was made: %s', async (mark, newest) => {
    const facts: FileFacts = {};
    const rows = await Readable.from(readers.csv(Readable.from([`${CSV}${mark}\n`]), 'mark', facts)).toArray();
    expect([rows.flat().length, facts.newest]).toEqual([2, newest]);
  });

  it.each(['# end 42', '# end 42 2026-11-25T12', '# end x', '# failed,,'])('must be whole: %s', async (mark) => {
    expect(await petsOf('csv', `${CSV}${mark}\n`, 'line break')).toBeUndefined();
  });
});

it('reads CRLF, quotes, empty lines, and JSON with any space and numbers such as 2e2', async () => {
  const csv = '"petId",quantity,"status"\r\n\r\n"1",2,sold\r\n3,"4","pending"\r\n';
  expect(await petsOf('csv', csv, 'whole line')).toEqual(['3,,1,2,sold,\n', '4,,3,4,pending,\n']);
  const json = `[ {"status":"sold","quantity":2e2,"petId":1},\r\n{"petId":3,\n"quantity":-0.0,"status":"pend\\u0069ng"} ]\r\n`;
  expect(await petsOf('json', json, 'whole line')).toEqual(['1,,1,200,sold,\n', '2,,3,0,pending,\n']);
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

const HEADER = 'the header must be petId,quantity,status, in any order';
const FIRST = 'it must be the first line: remove what stands above it';
const QUOTE_FAULT = 'has a quote that does not stand around a whole field, or a line break between quotes; remove it';

it.each([
  ['csv', 'petId,quantity,name\n', `${HEADER}, not "petId,quantity,name"; remove the column "name"`],
  ['csv', 'petId,quantity;a\n', `${HEADER}, not "petId,quantity;a"; add the column "quantity"`],
  ['csv', 'petId,status,name\n', `${HEADER}, not "petId,status,name"; add the column "quantity"`],
  ['csv', 'petId,quantity,petId\n', `${HEADER}, not "petId,quantity,petId"; remove one of the columns "petId"`],
  ['csv', 'Stock of May,,\npetId,quantity,status\n', `${HEADER}, not "Stock of May,,"; ${FIRST}`],
  ['csv', '5,5,sold\n', `${HEADER}, not "5,5,sold"; ${FIRST}`],
  ['csv', '"petId\n",quantity\n', `the header ${QUOTE_FAULT}`],
  ['csv', 'a"b\n', `the header ${QUOTE_FAULT}`],
] as const)('tells what is wrong with a whole file of %s: %j', async (format, text, told) => {
  await expect(faultsOf(format, text)).rejects.toThrow(new Failure(told));
});

it('counts empty lines, too', async () => {
  const text = '\n\npetId,quantity,status\n\n1,2,sold\n \n2,-1,sold\n';
  const rows = (await Readable.from(readers.csv(Readable.from([text]), 'line break')).toArray()).flat();
  expect(rows.map((row: string) => row.slice(0, 12))).toEqual(['5,,1,2,sold,', '7,,2,,sold,\n', '7,"quantity ']);
});

describe('a JSON array', () => {
  it('has its items counted, however many there are, and gives the rows of ten thousand at a time', async () => {
    const items = Array.from({ length: 20_001 }, (_, at) => ({ petId: at, quantity: 1, status: 'sold' }));
    const slices = await Readable.from(readers.json(Readable.from([JSON.stringify(items)]))).toArray();
    expect(slices.map((rows: string[]) => [rows.length, rows[0]])).toEqual([
      [10_000, '1,,0,1,sold,\n'],
      [10_000, '10001,,10000,1,sold,\n'],
      [1, '20001,,20000,1,sold,\n'],
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
  expect((await rowsOf(10_000)).flat()).toEqual(['2,,1,2,sold,\n']);
  await expect(rowsOf(10_001)).rejects.toThrow('line 2 is longer than 10000 characters');
});
