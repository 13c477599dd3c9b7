import { Failure } from '../errors/failure.js';
import { quote, withoutControls } from './output.js';
import type { Format } from './stock-file.js';

/** The members of a pet, in the order in which export writes them. */
const MEMBERS = ['petId', 'quantity', 'status'];

/** No sound line is longer; a file without line breaks must not gather in memory. */
const LONGEST_LINE = 10_000;
/** In characters, for an array is held and parsed as a whole. A million pets have some 75 million. */
const LONGEST_ARRAY = 100_000_000;

/** Items of an array whose rows are made at once. */
const SLICE = 10_000;

const MEMBER_TWICE = 'has a member twice, or a colon in a value';

/**
 * The readers of stock in UTF-8, with or without BOM. They give rows in CSV for COPY: place, fault, petId, quantity, status.
 * The place is a line, or an item of a JSON array, counted from 1. A fault of the form has a row of its own; values are
 * passed on as they are written, for PostgreSQL to judge.
 */
export const readers: Readonly<Record<Format, (chunks: AsyncIterable<Buffer>) => AsyncGenerator<string[]>>> = {
  csv: readCsv,
  ndjson: readNdjson,
  json: readJsonArray,
};

/** RFC 4180; the header names the columns, in any order. */
async function* readCsv(chunks: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  let columns: number[] | undefined;
  yield* readLines(chunks, (line, text) => {
    const fields = fieldsOf(text);
    if (columns) return [csvRow(line, fields, columns)];
    columns = columnsOf(fields, line);
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

function columnsOf(header: string[], line: number): number[] {
  const faults = MEMBERS.flatMap((member) => {
    const times = header.filter((name) => name === member).length;
    return times === 1 ? [] : [`column ${member} is ${times === 0 ? 'missing' : 'there twice'} in the header`];
  });
  const unknown = header.filter((name) => !MEMBERS.includes(name)).map((name) => `column ${quote(name)} is unknown`);
  if (faults.length + unknown.length > 0)
    throw new Failure([...faults, ...unknown].map((fault) => `line ${line}: ${fault}`).join('\n'));
  return MEMBERS.map((name) => header.indexOf(name));
}

function csvRow(line: number, fields: string[], columns: number[]): string {
  if (fields.some((field) => field.includes('"')))
    return faultRow(line, 'has a quote that does not stand around a whole field');
  if (fields.length !== columns.length) {
    const count = `${fields.length} field${fields.length === 1 ? '' : 's'}`;
    return faultRow(line, `has ${count} where the header has ${columns.length}`);
  }
  const [petId = '', quantity = '', status = ''] = columns.map((column) => fields[column]);
  return petRow(line, petId, quantity, status);
}

/** One JSON object a line. */
function readNdjson(chunks: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  return readLines(chunks, (line, text) => {
    const item = parseJson(text);
    if (item instanceof Error) return [faultRow(line, 'is not valid JSON')];
    const rows = itemRows(line, item);
    return hasMemberTwice(text, [item]) ? [...rows, faultRow(line, MEMBER_TWICE)] : rows;
  });
}

async function* readJsonArray(chunks: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  let text = '';
  for await (const part of decode(chunks)) {
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
    petRow(place, textOf(petId), textOf(quantity), typeof status === 'string' ? status : textOf(status)),
  ];
}

/** A number in plain digits, everything else as JSON, which no rule takes. */
function textOf(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'number' ? String(value + 0) : JSON.stringify(value);
}

function petRow(place: number, petId: string, quantity: string, status: string): string {
  return `${place},,${cell(petId)},${cell(quantity)},${cell(status)}\n`;
}

function faultRow(place: number, fault: string): string {
  return `${place},${cell(fault)},,,\n`;
}

/** PostgreSQL has no character NUL. */
function cell(text: string): string {
  return `"${text.replaceAll('"', '""').replaceAll('\0', '\ufffd')}"`;
}

/** @param rowsOf what becomes of a line that is not empty */
async function* readLines(
  chunks: AsyncIterable<Buffer>,
  rowsOf: (line: number, text: string) => string[],
): AsyncGenerator<string[]> {
  let line = 0;
  let rest = '';
  const read = (texts: string[]) => texts.flatMap((text) => (++line, text.trim() === '' ? [] : rowsOf(line, text)));
  for await (const text of decode(chunks)) {
    const texts = (rest + text).split(/\r?\n/);
    rest = texts.pop() ?? '';
    yield read(texts);
    if (rest.length > LONGEST_LINE) throw new Failure(`line ${line + 1} is longer than ${LONGEST_LINE} characters`);
  }
  yield read([rest]);
}

async function* decode(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder(); // takes a BOM away
  for await (const chunk of chunks) yield decoder.decode(chunk, { stream: true });
  yield decoder.decode();
}
