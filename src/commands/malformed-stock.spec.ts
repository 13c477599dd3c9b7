import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { ITEM } from '../inventory/stock-item.js';
import type { Format } from './stock-file.js';
import { readers } from './stock-rows.js';

/** A file with one fault, and the problem that an import must print. */
interface MalformedFile {
  readonly format: Format;
  readonly text: string;
  readonly problem: string;
}

/** Members that replace those of a valid record, or a line that replaces the whole record. */
type Spoilt = Readonly<Record<string, string | undefined>> | string;
type Fault = readonly [problem: string, ...spoilt: Spoilt[]];

const PET_ID_RULE = `petId must be ${ITEM.petId.rule}`;
const QUANTITY_RULE = `quantity must be ${ITEM.quantity.rule}`;
const STATUS_RULE = `status must be ${ITEM.status.rule}`;
const HEADER_RULE = 'the header must be petId,quantity,status, in any order';
const QUOTE_RULE = 'has a quote that does not stand around a whole field, or a line break between quotes; remove it';
const NOT_JSON = 'is not valid JSON';
const TWICE = 'has a member twice';

const badNumbers = ['abc', '-0', '+5', '01', '0x10', '1e-3', '1.5', '5 5', '1_000', '٣', 'NaN', '1,5', '5e', '.5'];
const badPetIds = [...badNumbers, '9223372036854775808', '-9223372036854775809', '9'.repeat(30)];
const badQuantities = [...badNumbers, '-1', '2147483648', '99999999999999999999'];
const badStatuses = ['Available', 'SOLD', 'gone', '0', 'available,sold', 'constructor'];

const CSV_FAULTS: Fault[] = [
  [PET_ID_RULE, ...badPetIds.map((petId) => ({ petId }))],
  [QUANTITY_RULE, ...badQuantities.map((quantity) => ({ quantity }))],
  [STATUS_RULE, ...badStatuses.map((status) => ({ status }))],
  ['petId is missing', { petId: '' }],
  ['quantity is missing', { quantity: '' }],
  ['status is missing', { status: '' }],
  ['must have 3 fields', '5,5,sold,5', '5,5', '5;5;sold'],
  [QUOTE_RULE, '"5"5,5,sold', '5"5,5,sold', '"5,5,sold', '5,"5"",sold', '5,"5\n",sold', '"5\n","5\n",sold'],
  [QUANTITY_RULE, '5,"5""",sold', '5,"5"",5",sold'],
];

const badJsonPetIds = '"5" true [5] {} 1.5 -0 9223372036854775808 -9223372036854775809 1e999'.split(' ');
const badJsonQuantities = '"5" false [5] {} 1.5 -1 2147483648 1e999 0.1e0'.split(' ');
const badJsonStatuses = '"Sold" 1 ["sold"] "gone"'.split(' ');

const ITEM_FAULTS: Fault[] = [
  [PET_ID_RULE, ...badJsonPetIds.map((petId) => ({ petId }))],
  [QUANTITY_RULE, ...badJsonQuantities.map((quantity) => ({ quantity }))],
  [STATUS_RULE, ...badJsonStatuses.map((status) => ({ status }))],
  ['petId is missing', { petId: undefined }, { petId: 'null' }],
  ['quantity is missing', { quantity: undefined }, { quantity: 'null' }],
  ['status is missing', { status: 'null' }, { status: '""' }],
  ['member "name" is unknown', { name: '"Rex"' }],
  ['member "__proto__" is unknown', '{"petId":5,"quantity":5,"status":"sold","__proto__":1}'],
  ['must be a JSON object', '[5,5,"sold"]', '5', 'null'],
  [TWICE, ...['', ' ', '\t'].map((space) => `{"petId":5,"petId"${space}:6,"quantity":5,"status":"sold"}`)],
  [TWICE, String.raw`{"status":"s\u006fld","petId":5,"petId":6,"quantity":5}`],
  [
    NOT_JSON,
    '{"petId":05,"quantity":5,"status":"sold"}',
    "{'petId':5,'quantity':5,'status':'sold'}",
    '{"petId":5,"quantity":5,"status":"sold",}',
    '{"petId":5,"quantity":5,"status":"sold"} {}',
  ],
];

const WHOLE_FAULTS: readonly (readonly [format: Format, problem: string, ...texts: string[]])[] = [
  ['csv', HEADER_RULE, '5,5,sold\n', 'petId,status\n5,sold\n', 'petId,petId,quantity,status\n'],
  ['csv', HEADER_RULE, 'petId,quantity,status,name\n'],
  ['csv', 'line 2: ends without a line break, so the rest of it may be missing', 'status,petId,quantity\nsold,5,56'],
  ['csv', `the file is empty; ${HEADER_RULE}`, ''],
  ['ndjson', `line 1: ${NOT_JSON}`, '5,5,sold\n'],
  ['json', `the file ${NOT_JSON}`, '', '[\n', '[{}]]'],
  ['json', 'the file must be one JSON array of objects', '{}'],
];

/** Each fault in each format, in the second of three records. */
function malformedFiles(): MalformedFile[] {
  const filesOf = (format: Format, faults: Fault[]) =>
    faults.flatMap(([problem, ...spoilt]) => spoilt.map((each) => fileWith(each, format, problem)));
  return [
    ...WHOLE_FAULTS.flatMap(([format, problem, ...texts]) => texts.map((text) => ({ format, text, problem }))),
    ...filesOf('csv', CSV_FAULTS),
    ...filesOf('ndjson', ITEM_FAULTS),
    ...filesOf('json', ITEM_FAULTS),
  ];
}

function fileWith(spoilt: Spoilt, format: Format, problem: string): MalformedFile {
  const status = format === 'csv' ? 'sold' : '"sold"';
  const faulty = typeof spoilt === 'string' ? spoilt : write(format, { petId: '2', quantity: '7', status, ...spoilt });
  const [first, last] = ['1', '3'].map((petId) => write(format, { petId, quantity: '7', status }));
  const records = [first, faulty, last];
  const text = {
    csv: `petId,quantity,status\n${records.join('\n')}\n`,
    ndjson: `${records.join('\n')}\n`,
    json: `[${records.join(',\n')}]\n`,
  }[format];
  return { format, text, problem: placed(problem, format) };
}

function write(format: Format, members: Readonly<Record<string, string | undefined>>): string {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  if (format !== 'csv') return `{${entries.map(([name, value]) => `"${name}":${value}`).join(',')}}`;
  return entries.map(([, value]) => (value?.includes(',') ? `"${value}"` : value)).join(',');
}

/** Adds the place to a problem. In a JSON array some problems have no place. */
function placed(problem: string, format: Format): string {
  if (format === 'csv') return `line 3: ${problem}`;
  if (format === 'ndjson') return `line 2: ${problem}`;
  if (problem === NOT_JSON) return `the file ${NOT_JSON}`;
  if (problem === TWICE) return `item 3: or an item before ${TWICE}`;
  return `item 2: ${problem}`;
}

/** The first problem of a file, without the value that breaks the rule. */
async function problemOf({ format, text }: MalformedFile): Promise<string> {
  const rows: string[] = [];
  try {
    for await (const some of readers[format](Readable.from([text]), 'whole line')) rows.push(...some);
  } catch (error) {
    return (error as Error).message.replace(/, not .+$|(?<=not valid JSON)( \(.*\))?: .*/, '');
  }
  const [, place, fault = ''] = rows.map((row) => /^(\d+),(".+"|[^,]+),,,,\n$/.exec(row)).find(Boolean) ?? [];
  const plain = fault.replace(/^"(.*)"$/, '$1').replaceAll('""', '"');
  if (plain.includes('must be an integer')) expect(plain).toContain(', not ');
  return `${format === 'json' ? 'item' : 'line'} ${place}: ${plain.replace(/(, not .+?)?( \(pet -?\d+\))?$/, '')}`;
}

it('every kind of malformed file is refused with its line and its problem', async () => {
  for (const file of malformedFiles()) expect({ ...file, problem: await problemOf(file) }).toEqual(file);
});
