import { Failure } from '../errors/error-text.js';
import { MEMBERS } from '../inventory/stock-item.js';
import { quote, withoutControls } from './output.js';
import { END_MARK } from './stock-file.js';

const NAMES = MEMBERS.map(({ name }) => name);
/** A JavaScript number would round them. */
const EXACT = MEMBERS.filter(({ type }) => type === 'bigint').map(({ name }) => name);

/** No sound line is longer; a file without line breaks must not gather in memory. */
const LONGEST_LINE = 10_000;
/** In characters: an array is held and parsed as a whole. A million pets have some 75 million. */
const LONGEST_ARRAY = 100_000_000;
/** Items of an array whose rows are made at once. */
const SLICE = 10_000;

const HEADER_RULE = `the header must be ${NAMES.join()}, in any order`;
const MEMBER_TWICE = 'has a member twice';
const NO_END_MARK = `the end mark is missing: pets that were lost on the way would be removed; nothing was written
Write the data with "inventory export --end-mark", or add "${END_MARK}" as its last line once it is complete`;
const NO_LINE_BREAK = 'ends without a line break, so the rest of it may be missing';

/**
 * How lines must end, so that a cut file is not taken for a whole one: by the end mark; by a line break; or, in a file, by a
 * line break unless the last line cannot have been longer. An array has its bracket.
 */
export type Ending = 'mark' | 'line break' | 'whole line';

/** A line or an item: what is sound of its pet, in CSV, and what is wrong with it. */
interface Entry {
  readonly pet: string;
  readonly faults: readonly string[];
}

const faulty = (fault: string): Entry => ({ pet: ','.repeat(MEMBERS.length - 1), faults: [fault] });

/** Each gives rows in CSV for COPY: place (a line, or an item of an array, from 1), fault, and the members of the item. */
export const readers = { csv: readCsv, ndjson: readNdjson, json: readJsonArray };

/** RFC 4180; the header names the columns, in any order. */
async function* readCsv(text: AsyncIterable<string>, ending: Ending): AsyncGenerator<string[]> {
  let header: string[] | undefined;
  yield* readLines(text, ending, (line) => {
    const fields = fieldsOf(line);
    if (!header) {
      header = headerOf(fields ?? [line]);
      return undefined;
    }
    if (!fields) return faulty('has a quote that does not stand around a whole field');
    if (fields.length !== header.length) return faulty(`must have ${header.length} fields, not ${fields.length}`);
    return petOf(NAMES.map((name) => fields[header?.indexOf(name) ?? 0] ?? ''));
  });
  if (!header) throw new Failure(HEADER_RULE);
}

/** The fields without the quotes around them; undefined where a quote stands elsewhere and is not doubled. */
function fieldsOf(line: string): string[] | undefined {
  if (!line.includes('"')) return line.split(',');
  const fields = line.match(/(?<=^|,)("([^"]|"")*"(?=,|$)|[^,]*)/g) ?? [];
  if (!fields.every((field) => /^("([^"]|"")*"|[^"]*)$/.test(field))) return undefined;
  return fields.map((field) => (field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field));
}

function headerOf(fields: string[]): string[] {
  const [separator] = fields.length === 1 ? (/[;\t|]/.exec(fields.join()) ?? []) : [];
  if (separator) throw new Failure(`the fields seem to be separated by ${JSON.stringify(separator)}; use commas`);
  const missing = MEMBERS.filter(({ name, holds }) => !fields.includes(name) && !holds(''));
  const isEachOnce = fields.every((name, at) => NAMES.includes(name) && fields.indexOf(name) === at);
  if (missing.length === 0 && isEachOnce) return fields;
  throw new Failure(`${HEADER_RULE}, not ${quote(fields.join())}`);
}

function readNdjson(text: AsyncIterable<string>, ending: Ending): AsyncGenerator<string[]> {
  return readLines(text, ending, (line) => {
    const item = parseJson(line);
    if (item instanceof Error) return faulty('is not valid JSON');
    const { pet, faults } = itemOf(item);
    return { pet, faults: hasMemberTwice(line, [item]) ? [...faults, MEMBER_TWICE] : faults };
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
    yield items.slice(at, at + SLICE).flatMap((item, index) => rowsOf(at + index + 1, itemOf(item)));
  // Nobody knows any more which item it is.
  if (hasMemberTwice(text, items)) yield rowsOf(items.length, faulty(`or an item before ${MEMBER_TWICE}`));
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

/** JSON.parse lets the last of two equal members win, so their names are counted in the text. */
function hasMemberTwice(text: string, items: unknown[]): boolean {
  let names = 0;
  for (const [string] of text.matchAll(/"(?:[^"\\]|\\.)*"(?:\s*:)?/g)) if (string.endsWith(':')) names++;
  return names > items.reduce<number>((sum, item) => sum + Object.keys(item ?? {}).length, 0);
}

function itemOf(item: unknown): Entry {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return faulty('must be a JSON object');
  const unknown = Object.keys(item).filter((name) => !NAMES.includes(name));
  const texts = MEMBERS.map(({ name, json }) => textOf((item as Record<string, unknown>)[name], json.isString));
  const { pet, faults } = petOf(texts);
  return { pet, faults: [...unknown.map((name) => `member ${quote(name)} is unknown`), ...faults] };
}

/** A number in plain digits. A value of the wrong kind (string or not) is kept as JSON, which breaks the rule. */
function textOf(value: unknown, isString: boolean): string {
  if (value === undefined || value === null) return '';
  if (isString && typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : JSON.stringify(value);
}

/** @param texts in the order of the members; empty where one is missing */
function petOf(texts: readonly string[]): Entry {
  const isSound = MEMBERS.map(({ holds }, at) => holds(texts[at] ?? ''));
  const sound = texts.map((text, at) => (isSound[at] ? csvField(text) : ''));
  const whose = isSound[0] ? ` (pet ${texts[0]})` : '';
  const faults = MEMBERS.flatMap(({ name, rule }, at) =>
    isSound[at] ? [] : [`${name} ${texts[at] ? `must be ${rule}, not ${quote(texts[at])}` : 'is missing'}${whose}`],
  );
  return { pet: sound.join(), faults };
}

function rowsOf(place: number, { pet, faults }: Entry): string[] {
  const faultRows = faults.map((fault) => `${place},${csvField(fault)}${','.repeat(MEMBERS.length)}\n`);
  return [`${place},,${pet}\n`, ...faultRows];
}

const csvField = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** @param read gives what a line says that is not empty; undefined for a header */
async function* readLines(
  text: AsyncIterable<string>,
  ending: Ending,
  read: (line: string) => Entry | undefined,
): AsyncGenerator<string[]> {
  let place = 0;
  let endMarkAt = 0;
  function rows(line: string, isEnded: boolean): string[] {
    place++;
    if (line.trim() === '') return [];
    if (!isEnded && ending !== 'whole line') return rowsOf(place, faulty(NO_LINE_BREAK));
    if (endMarkAt > 0) return rowsOf(place, faulty(`comes after the end mark in line ${endMarkAt}`));
    if (line === END_MARK) {
      endMarkAt = place;
      return [];
    }
    const entry = read(line);
    // A line that would be sound with one digit more may have had it: 567 may be the rest of 5678.
    const mayBeCut = !isEnded && read(`${line}0`)?.faults.length === 0;
    return entry ? rowsOf(place, mayBeCut ? faulty(NO_LINE_BREAK) : entry) : [];
  }
  let rest = '';
  for await (const part of text) {
    const lines = (rest + part).split(/\r?\n/);
    rest = lines.pop() ?? '';
    yield lines.flatMap((line) => rows(line, true));
    if (rest.length > LONGEST_LINE) throw new Failure(`line ${place + 1} is longer than ${LONGEST_LINE} characters`);
  }
  yield rows(rest, false);
  if (ending === 'mark' && endMarkAt === 0) throw new Failure(NO_END_MARK);
}
