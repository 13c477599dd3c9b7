import { Failure } from '../errors/error-text.js';
import { PetStatus } from '../generated/prisma/enums.js';
import { isPetId, MAX_PET_ID, MAX_QUANTITY, MIN_PET_ID } from '../inventory/stock.limits.js';
import { quote, withoutControls } from './output.js';

const STATUSES = Object.keys(PetStatus);

/** What each member of a pet must be, in the order in which export writes them. */
const RULES = {
  petId: { words: `an integer from ${MIN_PET_ID} to ${MAX_PET_ID}, in plain digits`, holds: isPetId },
  quantity: {
    words: `an integer from 0 to ${MAX_QUANTITY}`,
    holds: (text: string) => /^(0|[1-9]\d{0,9})$/.test(text) && Number(text) <= MAX_QUANTITY,
  },
  status: { words: `one of ${STATUSES.join(', ')}`, holds: (text: string) => STATUSES.includes(text) },
};

type Member = keyof typeof RULES;
const MEMBERS = Object.keys(RULES) as Member[];

/** No sound line is longer; a file without line breaks must not gather in memory. */
const LONGEST_LINE = 10_000;
/** In characters, for an array is held and parsed as a whole. A million pets have some 75 million. */
const LONGEST_ARRAY = 100_000_000;

/** Items of an array whose rows are made at once. */
const SLICE = 10_000;

const MEMBER_TWICE = 'has a member twice, or a colon in a value';

/**
 * The readers of stock. They give rows in CSV for COPY: place, fault, petId, quantity, status. The place is a line, or an
 * item of a JSON array, counted from 1. A pet has one row, with what is sound of it, and each fault has a row of its own.
 */
export const readers = { csv: readCsv, ndjson: readNdjson, json: readJsonArray };

/** RFC 4180; the header names the columns, in any order. */
async function* readCsv(text: AsyncIterable<string>): AsyncGenerator<string[]> {
  let columns: number[] | undefined;
  yield* readLines(text, (place, line) => {
    const fields = fieldsOf(line);
    if (columns) return csvRows(place, fields, columns);
    columns = columnsOf(place, fields);
    return [];
  });
  if (!columns) throw new Failure(`line 1: the header ${MEMBERS.join(',')} is missing`);
}

/** The fields without the quotes around them. A field that still has a quote is broken: no sound value has one in it. */
function fieldsOf(line: string): string[] {
  if (!line.includes('"')) return line.split(',');
  const fields = line.match(/(?<=^|,)("[^"]*"(?=,|$)|[^,]*)/g) ?? [];
  return fields.map((field) => field.replace(/^"([^"]*)"$/, '$1'));
}

function columnsOf(place: number, header: readonly string[]): number[] {
  const faults = [];
  for (const member of MEMBERS) {
    const times = header.filter((name) => name === member).length;
    if (times !== 1) faults.push(`column ${member} is ${times === 0 ? 'missing' : 'there twice'} in the header`);
  }
  for (const name of header) if (!Object.hasOwn(RULES, name)) faults.push(`column ${quote(name)} is unknown`);
  if (faults.length > 0) throw new Failure(faults.map((fault) => `line ${place}: ${fault}`).join('\n'));
  return MEMBERS.map((name) => header.indexOf(name));
}

function csvRows(place: number, fields: readonly string[], columns: readonly number[]): string[] {
  if (fields.some((field) => field.includes('"')))
    return [faultRow(place, 'has a quote that does not stand around a whole field')];
  if (fields.length !== columns.length) {
    const count = `${fields.length} field${fields.length === 1 ? '' : 's'}`;
    return [faultRow(place, `has ${count} where the header has ${columns.length}`)];
  }
  const [petId = '', quantity = '', status = ''] = columns.map((column) => fields[column]);
  return petRows(place, { petId, quantity, status });
}

/** One JSON object a line. */
function readNdjson(text: AsyncIterable<string>): AsyncGenerator<string[]> {
  return readLines(text, (place, line) => {
    const item = parseJson(line);
    if (item instanceof Error) return [faultRow(place, 'is not valid JSON')];
    const rows = itemRows(place, item);
    return hasMemberTwice(line, [item]) ? [...rows, faultRow(place, MEMBER_TWICE)] : rows;
  });
}

async function* readJsonArray(parts: AsyncIterable<string>): AsyncGenerator<string[]> {
  let text = '';
  for await (const part of parts) {
    text += part;
    if (text.length > LONGEST_ARRAY)
      throw new Failure(`the JSON array is longer than ${LONGEST_ARRAY} characters; ndjson can have any length`);
  }
  const items = parseJson(text);
  if (items instanceof Error) throw new Failure(`the file is not valid JSON: ${withoutControls(items.message)}`);
  if (!Array.isArray(items)) throw new Failure('the file must be one JSON array of objects');
  for (let at = 0; at < items.length; at += SLICE)
    yield items.slice(at, at + SLICE).flatMap((item, index) => itemRows(at + index + 1, item));
  // Which item it is nobody knows any more: it is told at the last.
  if (hasMemberTwice(text, items)) yield [faultRow(items.length, `or an item before ${MEMBER_TWICE}`)];
}

/** A petId stays as it is written: a number would round it. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text, (name, value: unknown, context?: { source: string }) =>
      name === 'petId' && typeof value === 'number' && context ? JSON.rawJSON(context.source) : value,
    );
  } catch (error) {
    return error;
  }
}

/** JSON.parse lets the last of two equal members win. In sound items each colon belongs to a member. */
function hasMemberTwice(text: string, items: unknown[]): boolean {
  let colons = 0;
  for (let at = text.indexOf(':'); at >= 0; at = text.indexOf(':', at + 1)) colons++;
  return colons > items.reduce<number>((members, item) => members + Object.keys(item ?? {}).length, 0);
}

function itemRows(place: number, item: unknown): string[] {
  if (typeof item !== 'object' || item === null || Array.isArray(item))
    return [faultRow(place, 'must be a JSON object')];
  const { petId, quantity, status, ...others } = item as Record<string, unknown>;
  return [
    ...Object.keys(others).map((name) => faultRow(place, `member ${quote(name)} is unknown`)),
    ...petRows(place, {
      petId: textOf(petId),
      quantity: textOf(quantity),
      status: typeof status === 'string' ? status : textOf(status),
    }),
  ];
}

/** A number in plain digits, everything else as JSON, which no rule takes. */
function textOf(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'number' ? String(value + 0) : JSON.stringify(value);
}

function petRows(place: number, pet: Readonly<Record<Member, string>>): string[] {
  const broken = MEMBERS.filter((member) => !RULES[member].holds(pet[member]));
  const sound = MEMBERS.map((member) => (broken.includes(member) ? '' : pet[member]));
  const whose = broken.includes('petId') ? '' : ` (pet ${pet.petId})`;
  return [
    `${place},,${sound.join(',')}\n`,
    ...broken.map((member) => {
      const problem = pet[member] === '' ? 'is missing' : `must be ${RULES[member].words}, not ${quote(pet[member])}`;
      return faultRow(place, `${member} ${problem}${whose}`);
    }),
  ];
}

function faultRow(place: number, fault: string): string {
  return `${place},"${fault.replaceAll('"', '""')}",,,\n`;
}

/** @param rowsOf what becomes of a line that is not empty */
async function* readLines(
  text: AsyncIterable<string>,
  rowsOf: (place: number, line: string) => string[],
): AsyncGenerator<string[]> {
  let place = 0;
  let rest = '';
  const read = (lines: string[]) => lines.flatMap((line) => (++place, line.trim() === '' ? [] : rowsOf(place, line)));
  for await (const part of text) {
    const lines = (rest + part).split(/\r?\n/);
    rest = lines.pop() ?? '';
    yield read(lines);
    if (rest.length > LONGEST_LINE) throw new Failure(`line ${place + 1} is longer than ${LONGEST_LINE} characters`);
  }
  yield read([rest]);
}
