import { Failure } from '../errors/error-text.js';
import { NOT_UPDATED, MEMBERS, itemTag } from '../inventory/stock-item.js';
import { quote } from './output.js';
import { END_MARK, FAILED_MARK } from './stock-file.js';
import {
  EXPORTED,
  hasThousands,
  isEmptyRow,
  isItemTag,
  isRoundedFrom,
  isUnedited,
  MADE,
  mayBeRounded,
  plainDigits,
  readExported,
  trimBlanks,
} from './stock-values.js';

const NAMES = MEMBERS.map(({ name }) => name);
/** A JavaScript number would round them. */
const EXACT = MEMBERS.filter(({ type }) => type === 'bigint').map(({ name }) => name);
/** If a file leaves them out, a pet of the store keeps its own. */
const MAY_BE_LEFT_OUT = new Set(MEMBERS.filter((member) => NOT_UPDATED.includes(member) || member.holds('')));

/** No sound line is longer; a file without line breaks must not gather in memory. */
const LONGEST_LINE = 10_000;
/** In characters: an array is held and parsed as a whole. A million pets have some 75 million. */
const LONGEST_ARRAY = 100_000_000;
/** Items of an array whose rows are made at once. */
const SLICE = 10_000;

const HEADER_RULE = `the header must be ${NAMES.join()}, in any order`;
const MISPLACED_QUOTE =
  'has a quote that does not stand around a whole field, or a line break between quotes; remove it';
const MEMBER_TWICE = 'has a member twice';
const NO_END_MARK = `the end mark is missing: pets that were lost on the way would be removed; nothing was written
Write the data with "inventory export --end-mark", or add "${END_MARK}" as its last line once it is complete`;
const NO_LINE_BREAK = 'ends without a line break, so the rest of it may be missing';
const ROUNDED =
  'a spreadsheet keeps 15 digits: format the column as text, or edit a file of "inventory export --editable"';

/** What to do about problems whose own lines do not say it. */
export function adviceFor(told: string): string {
  if (!told.includes(NO_LINE_BREAK)) return '';
  return `\nIf the file is whole: in a spreadsheet, write ${END_MARK} into the first cell below the last row, and save the file again`;
}

/**
 * How lines must end, so that a cut file is not taken for a whole one: by the end mark; by a line break; or, in a file, by a
 * line break unless the last line cannot have been longer. An array has its bracket.
 */
export type Ending = 'mark' | 'line break' | 'whole line';

/** What a file says besides its pets. */
export interface FileFacts {
  /** Whether rows tell what they were made from. */
  hasExported?: boolean;
  /** The newest change that the export had, by the end mark. */
  newest?: { readonly id: string; readonly at: string };
}

/** A line or an item: the sound values of its pet in CSV, and its faults. */
interface Entry {
  readonly pet: string;
  readonly faults: readonly string[];
}

const faulty = (...faults: string[]): Entry => ({ pet: ','.repeat(MEMBERS.length), faults });
const NONE: readonly string[] = [];

/** Each gives rows in CSV for COPY: place (a line, or an item of an array, from 1), fault, the members of the item, and {@link MADE}. */
export const readers = { csv: readCsv, ndjson: readNdjson, json: readJsonArray };

const BREAKS = { csv: /\r\n|[\n\r\u0085\u2028\u2029]/, ndjson: /\r\n|[\n\r]/ };

/** RFC 4180, with what spreadsheets make of it. The header names the columns, in any order. */
async function* readCsv(text: AsyncIterable<string>, ending: Ending, facts: FileFacts = {}): AsyncGenerator<string[]> {
  let separator: string | undefined;
  let columns: Columns | undefined;
  yield* readLines(text, BREAKS.csv, ending, facts, (line, isEnded) => {
    if (columns) return columns.read(line, isEnded);
    const [, named] = /^\ufeff*"?sep=([,;|\t])\1*"?\s*$/i.exec(line) ?? [];
    if (named && !separator) {
      separator = named;
    } else {
      columns = new Columns(line, separator);
      facts.hasExported = columns.hasExported;
    }
    return undefined;
  });
  if (!columns) throw new Failure(`the file is empty; ${HEADER_RULE}`);
}

class Columns {
  readonly hasExported: boolean;
  private readonly separator: string;
  private readonly names: readonly string[];
  /** Of each member; -1 where the file leaves it out. */
  private readonly at: readonly number[];
  private readonly leftOut: readonly boolean[];
  private readonly exportedAt: number;
  /** Whether the columns are as the export writes them: then a sound line needs little work. */
  private readonly isAsExported: boolean;

  constructor(header: string, separator?: string) {
    this.separator = separator ?? separatorOf(header);
    const found = fieldsOf(header, this.separator);
    const names = (found ?? [header]).map(trimBlanks);
    this.names = names.map(
      (name) => [...NAMES, EXPORTED].find((own) => own.toLowerCase() === name.toLowerCase()) ?? name,
    );
    this.at = NAMES.map((name) => this.names.indexOf(name));
    this.leftOut = this.at.map((at) => at === -1);
    this.exportedAt = this.names.indexOf(EXPORTED);
    this.hasExported = this.exportedAt >= 0;
    const exportedNames = this.hasExported ? [...NAMES, EXPORTED] : NAMES;
    this.isAsExported = this.separator === ',' && this.names.join() === exportedNames.join();
    const advice = this.headerAdvice();
    if (advice === undefined) return;
    refuseOtherFormat(header);
    if (!found) throw new Failure(`the header ${MISPLACED_QUOTE}`);
    throw new Failure(`${HEADER_RULE}, not ${quote(this.names.join())}; ${advice}`);
  }

  /** What to do about the header; undefined if it is sound. */
  private headerAdvice(): string | undefined {
    const unknown = this.names.find((name) => ![...NAMES, EXPORTED, ''].includes(name));
    const missing = MEMBERS.find((member, index) => this.at[index] === -1 && !MAY_BE_LEFT_OUT.has(member));
    const twice = this.names.find((name, index) => name !== '' && this.names.indexOf(name) !== index);
    if (this.names.every((name) => !NAMES.includes(name)))
      return 'it must be the first line: remove what stands above it';
    if (missing) return `add the column ${quote(missing.name)}`;
    if (unknown !== undefined) return `remove the column ${quote(unknown)}`;
    return twice === undefined ? undefined : `remove one of the columns ${quote(twice)}`;
  }

  /** @returns undefined for an empty row, and for a repeated header, as in files that were joined */
  read(line: string, isEnded: boolean): Entry | undefined {
    const found = fieldsOf(line, this.separator);
    if (!found) return faulty(MISPLACED_QUOTE);
    const { length } = this.names;
    if (this.isAsExported && found.length === length && MEMBERS.every(({ holds }, at) => holds(found[at] ?? ''))) {
      if (!this.hasExported) return { pet: `${line.includes('"') ? found.join() : line},`, faults: NONE };
      const [petId = '', quantity = '', status = '', exported = ''] = found;
      const made = madeFrom(exported, petId, quantity, status);
      if (made !== undefined) return { pet: `${petId},${quantity},${status},${made}`, faults: NONE };
    }
    const fault = found.length !== length || this.names.includes('') ? this.lengthFault(found, isEnded) : undefined;
    if (fault) return faulty(fault);
    const fields = found.length < length ? [...found, ...Array<string>(length - found.length).fill('')] : found;
    const texts = this.at.map((at) => fields[at] ?? '');
    const made = this.hasExported ? (fields[this.exportedAt] ?? '') : undefined;
    const entry = petOf(texts, this.leftOut, made, this.separator === ',' ? '.' : ',');
    if (!isEnded && this.hasExported && made?.trim() === '') return faulty(NO_LINE_BREAK);
    return entry.faults.length > 0 && this.isHeader(fields) ? undefined : entry;
  }

  /** What spreadsheets add or leave out are empty columns without a name, and empty ones at the end of a line. */
  private lengthFault(fields: readonly string[], isEnded: boolean): string | undefined {
    const isEmpty = (field: string) => trimBlanks(field) === '';
    const named = this.names.findLastIndex((name) => name !== '' && (name !== EXPORTED || !isEnded)) + 1;
    const isFull = fields.length >= named && fields.slice(this.names.length).every(isEmpty);
    if (!isFull) return `must have ${this.names.length} fields, not ${fields.length}`;
    const isWithoutName = fields.some((field, at) => this.names[at] === '' && !isEmpty(field));
    return isWithoutName ? 'has a value in a column without a name' : undefined;
  }

  private isHeader(fields: readonly string[]): boolean {
    return fields.every((field, at) => trimBlanks(field).toLowerCase() === this.names[at]?.toLowerCase());
  }
}

function separatorOf(header: string): string {
  if (header.includes(',')) return ',';
  const [separator = ','] = /[;\t|]/.exec(header) ?? [];
  if (separator === '|') throw new Failure(`the fields seem to be separated by ${quote(separator)}; use commas`);
  return separator;
}

/** The fields without the quotes around them; undefined where a quote stands elsewhere and is not doubled. */
function fieldsOf(line: string, separator: string): string[] | undefined {
  if (!line.includes('"')) return line.split(separator);
  const fields = line.match(QUOTED[separator] ?? '') ?? [];
  if (!fields.every((field) => /^(="([^"]|"")*"|\s*"([^"]|"")*"\s*|[^"]*)$/.test(field))) return undefined;
  // ="123" is how people keep a spreadsheet from making a number of a text.
  return fields.map((field) => {
    const bare = field.replace(/^=(?=")/, '').trim();
    return bare.startsWith('"')
      ? bare
          .slice(1, -1)
          .replaceAll('""', '"')
          .replace(/^="(.*)"$/, '$1')
      : field;
  });
}

const QUOTED: Readonly<Record<string, RegExp>> = Object.fromEntries(
  [',', ';', '\t', '|'].map((separator) => {
    const [own, blank] = [separator === '|' ? '\\|' : separator, separator === '\t' ? ' *' : '[ \t]*'];
    return [separator, new RegExp(`(?<=^|${own})(=?${blank}"([^"]|"")*"${blank}(?=${own}|$)|[^${separator}]*)`, 'g')];
  }),
);

/** Refuses a file of another format than its name or its --format says. */
function refuseOtherFormat(start: string): void {
  const first = trimBlanks(start)[0] ?? '';
  if (first === '{') throw new Failure('the file is no CSV, but JSON in lines; add --format ndjson');
  if (first === '[') throw new Failure('the file is no CSV, but a JSON array; add --format json');
  if (/[\0-\x08\x0e-\x1f\ufffd]/.test(start)) throw new Failure('the file is no text in UTF-8; save it as CSV UTF-8');
}

function readNdjson(text: AsyncIterable<string>, ending: Ending, facts: FileFacts = {}): AsyncGenerator<string[]> {
  let isFirst = true;
  return readLines(text, BREAKS.ndjson, ending, facts, (line) => {
    const item = parseJson(trimBlanks(line));
    if (isFirst && (item instanceof Error || Array.isArray(item))) refuseNotNdjson(line);
    isFirst = false;
    if (item instanceof Error) return faulty('is not valid JSON');
    const { pet, faults } = itemOf(item, facts);
    return { pet, faults: hasMemberTwice(line, [item]) ? [...faults, MEMBER_TWICE] : faults };
  });
}

function refuseNotNdjson(line: string): void {
  const start = trimBlanks(line);
  if (start.startsWith('[')) throw new Failure('the file is a JSON array; add --format json');
  if (/^"?[a-z]+"?[,;\t]/i.test(start)) throw new Failure('the file is not JSON, it seems to be CSV; add --format csv');
}

async function* readJsonArray(
  parts: AsyncIterable<string>,
  ...[, facts = {}]: [ending?: Ending, facts?: FileFacts]
): AsyncGenerator<string[]> {
  let text = '';
  for await (const part of parts) {
    text += part;
    if (text.length > LONGEST_ARRAY)
      throw new Failure(`the JSON array is longer than ${LONGEST_ARRAY} characters; ndjson can have any length`);
  }
  const items = parseJson(text);
  if (items instanceof Error) refuseNotJson(text, items);
  if (!Array.isArray(items)) throw new Failure('the file must be one JSON array of objects');
  for (let at = 0; at < items.length; at += SLICE)
    yield items.slice(at, at + SLICE).flatMap((item, index) => rowsOf(at + index + 1, itemOf(item, facts)));
  // The text does not show which item it is.
  if (hasMemberTwice(text, items)) yield rowsOf(items.length, faulty(`or an item before ${MEMBER_TWICE}`));
}

function refuseNotJson(text: string, { message }: Error): never {
  const [start = ''] = /\S/.exec(text) ?? [];
  const [place = ''] = / \(line \d+ column \d+\)/.exec(message) ?? [];
  if (start === '') throw new Failure('the file is not valid JSON: it is empty');
  if (start === '{') throw new Failure('the file is not valid JSON: it seems to be JSON in lines; add --format ndjson');
  if (start !== '[') throw new Failure('the file is not valid JSON: it seems to be CSV; add --format csv');
  if (text.trimEnd().endsWith(FAILED_MARK))
    throw new Failure('the file is not valid JSON: its export failed; export again');
  throw new Failure(`the file is not valid JSON${place}: it is cut, or somebody edited it; export it again`);
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

function itemOf(item: unknown, facts: FileFacts): Entry {
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return faulty('must be a JSON object');
  const unknown = Object.keys(item).filter((name) => !NAMES.includes(name) && name !== EXPORTED);
  const members = item as Readonly<Record<string, unknown>>;
  const texts = MEMBERS.map(({ name, json }) => textOf(members[name], json.isString));
  const leftOut = NAMES.map((name) => members[name] === undefined);
  if (Object.hasOwn(members, EXPORTED)) facts.hasExported = true;
  const exported = Object.hasOwn(members, EXPORTED) ? textOf(members[EXPORTED], true) : undefined;
  const { pet, faults } = petOf(texts, leftOut, exported);
  return { pet, faults: [...unknown.map((name) => `member ${quote(name)} is unknown`), ...faults] };
}

/** A number in plain digits. A value of the wrong kind (string or not) is kept as JSON, which breaks the rule. */
function textOf(value: unknown, isString: boolean): string {
  if (value === undefined || value === null) return '';
  if (isString && typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : JSON.stringify(value);
}

/**
 * @param written in the order of the members; empty where one is missing
 * @param exported undefined where the row has no such column or member
 * @param point the decimal separator
 */
function petOf(written: readonly string[], leftOut: readonly boolean[], exported?: string, point = '.'): Entry {
  if (MEMBERS.every(({ holds }, at) => holds(written[at] ?? ''))) {
    // Nearly all rows are like these.
    if (exported === undefined) return { pet: `${written.map(csvField).join()},`, faults: NONE };
    const [petId = '', quantity = '', status = ''] = written;
    const made = madeFrom(exported, petId, quantity, status);
    if (made !== undefined) return { pet: `${written.map(csvField).join()},${made}`, faults: NONE };
  }
  const bare = written.map(trimBlanks);
  const numbers = bare.map((text) => (point === '.' ? text : text.replace(/^(-?\d+),(\d*)(?=e|$)/i, '$1.$2')));
  const texts = bare.map((text, at) =>
    MEMBERS[at]?.json.isString || hasThousands(text) ? text : plainDigits(numbers[at] ?? ''),
  );
  const [petId = '', quantity = '', status = ''] = texts;
  const text = trimBlanks(exported ?? '');
  const origin = readExported(text);
  const isOwn = origin && (petId === origin.petId || isRoundedFrom(numbers[0] ?? '', origin.petId));
  if (isOwn) texts[0] = origin.petId;
  const isSound = MEMBERS.map(
    (member, at) => member.holds(texts[at] ?? '') || (leftOut[at] && MAY_BE_LEFT_OUT.has(member)),
  );
  const whose = isSound[0] ? ` (pet ${texts[0]})` : '';
  const faults = MEMBERS.flatMap((member, at) => (isSound[at] ? [] : [`${faultOf(member, bare[at] ?? '')}${whose}`]));
  if (text !== '' && !origin)
    faults.push(`${EXPORTED} must be as the export wrote it, or empty for a new pet, not ${quote(text)}${whose}`);
  if (isSound[0] && origin && !isOwn)
    faults.push(
      `petId is ${petId}, but ${EXPORTED} is of pet ${origin.petId}: was one column sorted alone? For a new pet, leave ${EXPORTED} empty`,
    );
  if (isSound[0] && !origin && mayBeRounded(bare[0] ?? '', petId)) {
    isSound[0] = false;
    faults.unshift(`petId ${quote(bare[0] ?? '')} is rounded: ${ROUNDED}`);
  }
  const sound = texts.map((each, at) => (isSound[at] ? csvField(each) : ''));
  const made =
    exported === undefined
      ? ''
      : !origin
        ? MADE.new
        : isUnedited(origin.tag, quantity, status)
          ? MADE.unedited
          : origin.tag;
  return { pet: `${sound.join()},${made}`, faults };
}

/** What a row with sound values was made from; undefined if its `exported` is not whole, or is of another pet. */
function madeFrom(exported: string, petId: string, quantity: string, status: string): string | undefined {
  const start = `${petId}:`;
  if (exported === `${start}${itemTag({ quantity, status })}:`) return MADE.unedited;
  if (!exported.startsWith(start) || !exported.endsWith(':')) return undefined;
  const tag = exported.slice(start.length, -1);
  return isItemTag(tag) ? tag : undefined;
}

function faultOf({ name, rule, json }: (typeof MEMBERS)[number], text: string): string {
  if (text === '') return `${name} is missing`;
  if (text.includes('\ufffd')) return `${name} has a character that is not in UTF-8; save the file as CSV UTF-8`;
  const plainly = !json.isString && hasThousands(text) ? `${rule}, without thousands separators` : rule;
  return `${name} must be ${plainly}, not ${quote(text)}`;
}

function rowsOf(place: number, { pet, faults }: Entry): string[] {
  const row = `${place},,${pet}\n`;
  return faults.length === 0
    ? [row]
    : [row, ...faults.map((fault) => `${place},${csvField(fault)}${','.repeat(MEMBERS.length + 1)}\n`)];
}

const csvField = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** @param read gives what a line says that is not empty; undefined for a line without a pet */
async function* readLines(
  text: AsyncIterable<string>,
  breaks: RegExp,
  ending: Ending,
  facts: FileFacts,
  read: (line: string, isEnded: boolean) => Entry | undefined,
): AsyncGenerator<string[]> {
  const others = new RegExp(breaks.source.replace('\\r\\n|[\\n', '['));
  let place = 0;
  let endMarkAt = 0;
  function rows(line: string, isEnded: boolean): string[] {
    place++;
    if (/^[^\w-]/.test(line) ? isEmptyRow(line) : line === '') return [];
    if (!isEnded && ending !== 'whole line') return rowsOf(place, faulty(NO_LINE_BREAK));
    if (endMarkAt > 0) return rowsOf(place, faulty(`comes after the end mark in line ${endMarkAt}`));
    if (line.startsWith('#') || line.startsWith('"#')) {
      // A spreadsheet adds empty columns.
      const mark = line.replace(/[\s",;|]+$/, '').replace(/^"/, '');
      if (mark === FAILED_MARK)
        return rowsOf(place, faulty('says that the export failed, so pets are missing; export again'));
      const [whole, id, at] = END.exec(mark) ?? [];
      if (whole !== undefined) {
        endMarkAt = place;
        if (id !== undefined && at !== undefined) facts.newest = { id, at };
        return [];
      }
    }
    const entry = read(line, isEnded);
    // A line that would be sound with one digit more may have had it: 567 may be the rest of 5678.
    const mayBeCut = !isEnded && read(`${line}0`, isEnded)?.faults.length === 0;
    return entry ? rowsOf(place, mayBeCut ? faulty(NO_LINE_BREAK) : entry) : [];
  }
  let rest = '';
  for await (const part of text) {
    rest += part;
    // A line break of two characters may come in two parts.
    const end = rest.endsWith('\r') ? rest.length - 1 : rest.length;
    const whole = rest.slice(0, end);
    const lines = whole.split(others.test(whole) ? breaks : '\n');
    rest = (lines.pop() ?? '') + rest.slice(end);
    yield lines.flatMap((line) => rows(line, true));
    if (rest.length > LONGEST_LINE) throw new Failure(`line ${place + 1} is longer than ${LONGEST_LINE} characters`);
  }
  const lines = rest.split(breaks);
  yield lines.flatMap((line, at) => rows(line, at < lines.length - 1));
  if (ending === 'mark' && endMarkAt === 0) throw new Failure(NO_END_MARK);
}

const END = new RegExp(String.raw`^${END_MARK}(?: (\d{1,18}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z))?$`);
