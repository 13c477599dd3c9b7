import { Failure } from '../errors/error-text.js';
import { MEMBERS } from '../inventory/stock-item.js';
import { quote, withoutControls } from './output.js';
import { END_MARK } from './stock-file.js';

const NAMES = MEMBERS.map(({ name }) => name);
/** A JavaScript number would round them. */
const EXACT = MEMBERS.filter(({ type }) => type === 'bigint').map(({ name }) => name);

/** No sound line is longer; a file without line breaks must not gather in memory. */
const LONGEST_LINE = 10_000;
/** In characters, for an array is held and parsed as a whole. A million pets have some 75 million. */
const LONGEST_ARRAY = 100_000_000;

/** Items of an array whose rows are made at once. */
const SLICE = 10_000;

const MEMBER_TWICE = 'has a member twice';
const NO_END_MARK = `the end mark is missing: pets that were lost on the way would be removed; nothing was written
Write the data with "inventory export --end-mark", or add "${END_MARK}" as its last line once it is complete`;
const NO_LINE_BREAK = 'ends without a line break, so the rest of it may be missing';

/**
 * How lines of stock must end, so that they are not taken for whole when they were cut: by the end mark; by a line break;
 * or, in a file, by a line break unless the last line cannot have been longer. An array has its bracket.
 */
export type Ending = 'mark' | 'line break' | 'whole line';

/**
 * The readers of stock. They give rows in CSV for COPY: place, fault, and the members of the item. The place is a line, or an
 * item of a JSON array, counted from 1. A pet has one row, with what is sound of it, and each fault has a row of its own.
 */
export const readers = { csv: readCsv, ndjson: readNdjson, json: readJsonArray };

/** RFC 4180; the header names the columns, in any order. */
async function* readCsv(text: AsyncIterable<string>, ending: Ending): AsyncGenerator<string[]> {
  let header: string[] | undefined;
  yield* readLines(text, ending, (place, line, isEnded) => {
    const fields = fieldsOf(line);
    if (header) return csvRows(place, fields, header, isEnded ? undefined : fieldsOf(`${line}0`)?.at(-1));
    header = fields ?? [line];
    refuseHeader(place, header);
    return [];
  });
  if (!header) throw new Failure(`line 1: the header ${NAMES.join(',')} is missing`);
}

/** The fields without the quotes around them; undefined where a quote stands elsewhere and is not doubled. */
function fieldsOf(line: string): string[] | undefined {
  if (!line.includes('"')) return line.split(',');
  const fields = line.match(/(?<=^|,)("([^"]|"")*"(?=,|$)|[^,]*)/g) ?? [];
  if (!fields.every((field) => /^("([^"]|"")*"|[^"]*)$/.test(field))) return undefined;
  return fields.map((field) => (field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field));
}

function refuseHeader(place: number, header: readonly string[]): void {
  const separator = header.length === 1 ? /[;\t|]/.exec(header[0] ?? '') : null;
  if (separator)
    throw new Failure(`line ${place}: the fields seem to be separated by ${JSON.stringify(separator[0])}; use commas`);
  const missing = MEMBERS.filter(({ name, holds }) => !header.includes(name) && !holds(''));
  const faults = missing.map(({ name }) => `column ${name} is missing in the header`);
  for (const [at, name] of header.entries()) {
    if (!NAMES.includes(name)) faults.push(`column ${quote(name)} is unknown`);
    else if (header.indexOf(name) < at) faults.push(`column ${name} is there twice in the header`);
  }
  if (faults.length > 0) throw new Failure(faults.map((fault) => `line ${place}: ${fault}`).join('\n'));
}

/** @param longer what the last field would be if it went on; 567 may be what is left of 5678 */
function csvRows(place: number, fields: string[] | undefined, header: readonly string[], longer?: string): string[] {
  if (!fields) return [faultRow(place, 'has a quote that does not stand around a whole field')];
  if (fields.length !== header.length) {
    const count = `${fields.length} field${fields.length === 1 ? '' : 's'}`;
    return [faultRow(place, `has ${count} where the header has ${header.length}`)];
  }
  if (longer !== undefined && MEMBERS.some(({ name, holds }) => name === header.at(-1) && holds(longer)))
    return [faultRow(place, NO_LINE_BREAK)];
  const texts = NAMES.map((name) => fields[header.indexOf(name)] ?? '');
  return petRows(place, texts);
}

/** One JSON object a line. */
function readNdjson(text: AsyncIterable<string>, ending: Ending): AsyncGenerator<string[]> {
  return readLines(text, ending, (place, line) => {
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

/** An exact number stays as it is written. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text, (name, value: unknown, context?: { source: string }) =>
      typeof value === 'number' && context && EXACT.includes(name) ? JSON.rawJSON(context.source) : value,
    );
  } catch (error) {
    return error;
  }
}

/** JSON.parse lets the last of two equal members win. Only where a value may have a colon, too, are strings told apart. */
function hasMemberTwice(text: string, items: unknown[]): boolean {
  const members = items.reduce<number>((sum, item) => sum + Object.keys(item ?? {}).length, 0);
  let colons = 0;
  for (let at = text.indexOf(':'); at >= 0; at = text.indexOf(':', at + 1)) colons++;
  if (colons <= members) return false;
  let names = 0;
  for (const [, colon] of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g)) if (colon) names++;
  return names > members;
}

function itemRows(place: number, item: unknown): string[] {
  if (typeof item !== 'object' || item === null || Array.isArray(item))
    return [faultRow(place, 'must be a JSON object')];
  const unknown = Object.keys(item).filter((name) => !NAMES.includes(name));
  const texts = MEMBERS.map(({ name, json }) => textOf((item as Record<string, unknown>)[name], json.isString));
  return [...unknown.map((name) => faultRow(place, `member ${quote(name)} is unknown`)), ...petRows(place, texts)];
}

/** A number in plain digits; what is no string where one must be, or the other way round, as JSON, which breaks the rule. */
function textOf(value: unknown, isString: boolean): string {
  if (value === undefined || value === null) return '';
  if (isString && typeof value === 'string') return value;
  return typeof value === 'number' ? String(value + 0) : JSON.stringify(value);
}

/** @param texts in the order of the members; empty where one is missing */
function petRows(place: number, texts: readonly string[]): string[] {
  const problems: string[] = [];
  const sound = MEMBERS.map(({ name, rule, holds }, at) => {
    const text = texts[at] ?? '';
    if (holds(text)) return csvField(text);
    problems.push(`${name} ${text === '' ? 'is missing' : `must be ${rule}, not ${quote(text)}`}`);
    return '';
  });
  const whose = sound[0] === '' ? '' : ` (pet ${sound[0]})`;
  return [`${place},,${sound.join(',')}\n`, ...problems.map((problem) => faultRow(place, problem + whose))];
}

function faultRow(place: number, fault: string): string {
  return `${place},${csvField(fault)}${','.repeat(MEMBERS.length)}\n`;
}

function csvField(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param rowsOf what becomes of a line that is not empty; `isEnded` where nothing can be missing at its end */
async function* readLines(
  text: AsyncIterable<string>,
  ending: Ending,
  rowsOf: (place: number, line: string, isEnded: boolean) => string[],
): AsyncGenerator<string[]> {
  let place = 0;
  let rest = '';
  let endMarkAt = 0;
  function read(line: string, isEnded: boolean): string[] {
    place++;
    if (line.trim() === '') return [];
    if (!isEnded && ending !== 'whole line') return [faultRow(place, NO_LINE_BREAK)];
    if (endMarkAt > 0) return [faultRow(place, `comes after the end mark in line ${endMarkAt}`)];
    if (line !== END_MARK) return rowsOf(place, line, isEnded);
    endMarkAt = place;
    return [];
  }
  for await (const part of text) {
    const lines = (rest + part).split(/\r?\n/);
    rest = lines.pop() ?? '';
    yield lines.flatMap((line) => read(line, true));
    if (rest.length > LONGEST_LINE) throw new Failure(`line ${place + 1} is longer than ${LONGEST_LINE} characters`);
  }
  yield read(rest, false);
  if (ending === 'mark' && endMarkAt === 0) throw new Failure(NO_END_MARK);
}
