import { Failure } from '../../lib/postgres/index.ts';
import { MEMBERS } from '../../inventory/item.ts';
import { duplicateMember } from '../../lib/http/json.ts';
import { END_MARK, EXPORTED, FAILED_MARK } from '../export.ts';
import { quote } from '../output.ts';
import { HEADER_RULE, notStock, refusal } from './problems.ts';
import { type Reading, readRow, type StockFile, trimBlanks } from './rows.ts';

const NAMES = MEMBERS.map(({ name }) => name);

/** No sound line is longer; a file without line breaks must not gather in memory. */
const LONGEST_LINE = 10_000;
/** In characters: an array is held and parsed as a whole. A million pets have some 75 million. */
const LONGEST_ARRAY = 100_000_000;

const NO_END_MARK =
  'the end mark is missing, or not whole: pets that were lost on the way would be removed; nothing was written';
const NO_LINE_BREAK = { kind: 'cut', text: 'ends without a line break, so the rest of it may be missing' };

/**
 * Gives the sound rows of a text in CSV, each with its place in front, and notes the problems of the others. The first
 * character that is not blank decides the format: `[` a JSON array, `{` JSON in lines, any other one CSV.
 *
 * @param needsMark whether only an end mark, or the bracket of an array, shows that no row is missing
 * @throws Failure when the text has no stock, or must not be that long
 */
export async function* readRows(
  text: AsyncIterable<string>,
  needsMark: boolean,
  file: StockFile,
): AsyncGenerator<string, void, undefined> {
  const lines = new Lines(needsMark, file);
  let isArray: boolean | undefined;
  let rest = '';
  for await (const part of text) {
    rest += part;
    isArray ??= startsArray(rest);
    if (isArray) {
      if (rest.length <= LONGEST_ARRAY) continue;
      throw refusal(`the JSON array is longer than ${LONGEST_ARRAY} characters`, 'long');
    }
    // A line break of two characters may come in two parts.
    const whole = rest.endsWith('\r') ? rest.slice(0, -1) : rest;
    const split = whole.split(whole.includes('\r') ? LINE_BREAK : '\n');
    rest = (split.pop() ?? '') + rest.slice(whole.length);
    yield split.map((line) => lines.read(line, true)).join('');
    if (rest.length > LONGEST_LINE)
      throw new Failure(`line ${lines.place + 1} is longer than ${LONGEST_LINE} characters`);
  }
  if (isArray) {
    yield* readArray(rest, file);
  } else {
    const split = rest.split(LINE_BREAK);
    yield split.map((line, at) => lines.read(line, at < split.length - 1)).join('');
    lines.end();
  }
}

/** Undefined while there are only blanks. */
function startsArray(text: string): boolean | undefined {
  const [start] = /[^\s\p{Z}\p{Cf}]/u.exec(text) ?? [];
  return start === undefined ? undefined : start === '[';
}

const LINE_BREAK = /\r\n|[\n\r]/;

/** @param reading undefined if there is no row */
function rowOf(place: number, reading: Reading | undefined, file: StockFile): string {
  if (typeof reading !== 'string') {
    for (const fault of reading ?? []) file.problems.add(fault, place);
    return '';
  }
  file.rows++;
  return `${place},${reading}\n`;
}

/** Undefined for an empty row. */
type LineReader = (line: string, isEnded: boolean) => Reading | undefined;

class Lines {
  place = 0;
  private endMarkAt = 0;
  private separator: Separator | undefined;
  private reader: LineReader | undefined;

  constructor(
    private readonly needsMark: boolean,
    private readonly file: StockFile,
  ) {}

  read(line: string, isEnded: boolean): string {
    this.place++;
    if (line === '') return '';
    const mark = /^"?#/.test(line) && this.endMarkAt === 0 ? MARK.exec(line) : null;
    if (mark && (isEnded || !this.needsMark || isWhole(mark))) {
      this.readMark(mark);
      return '';
    }
    const reading = this.reading(line, isEnded);
    const fault =
      this.endMarkAt > 0
        ? { kind: 'after', text: `comes after the end mark in line ${this.endMarkAt}` }
        : !isEnded && this.mayBeCut(line)
          ? NO_LINE_BREAK
          : undefined;
    return rowOf(this.place, reading && fault ? [fault] : reading, this.file);
  }

  end(): void {
    if (this.endMarkAt > 0) return;
    if (this.needsMark) throw refusal(NO_END_MARK, 'mark');
    if (!this.reader) throw notStock('it is empty');
  }

  private readMark([, mark, id, at]: RegExpExecArray): void {
    if (mark === FAILED_MARK)
      throw refusal(`line ${this.place} says that the export failed, so pets are missing`, 'broken');
    this.endMarkAt = this.place;
    if (id !== undefined && at !== undefined) this.file.newest = { id, at };
  }

  /** A line that would be sound with one digit more may have had it: 567 may be the rest of 5678. */
  private mayBeCut(line: string): boolean {
    return typeof this.reading(`${line}0`, false) === 'string';
  }

  private reading(line: string, isEnded: boolean): Reading | undefined {
    if (this.reader) return this.reader(line, isEnded);
    const text = trimBlanks(line);
    if (text.startsWith('{')) {
      if (parseJson(text) instanceof SyntaxError) throw notStock('its first line is no JSON');
      this.reader = (each) => (trimBlanks(each) === '' ? undefined : readItem(parseJson(each), this.file));
      return this.reader(text, isEnded);
    }
    const [, named] = SEPARATOR.exec(line) ?? [];
    if (named !== undefined && this.separator === undefined) this.separator = named as Separator;
    else this.reader = readerOf(line, this.separator ?? separatorOf(line), this.file);
    return undefined;
  }
}

/** A spreadsheet adds empty columns. */
const MARK = new RegExp(
  String.raw`^"?(${END_MARK}|${FAILED_MARK})(?: (\d{1,18}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z))?([\s",;]*)$`,
);
/** Without a line break, a bare mark may be the beginning of one that names a change, unless columns follow. */
const isWhole = ([, , id, , columns = '']: RegExpExecArray) => id !== undefined || /[\t",;]/.test(columns);

/** How a file names its separator for Excel. */
const SEPARATOR = /^[\ufeff"]*sep=([,;\t])[,;\t]*"?\s*$/i;
const separatorOf = (header: string): Separator =>
  ([',', ';', '\t'] as const).find((each) => header.includes(each)) ?? ',';

/** The reader of the lines below a header, which names the columns in any order; undefined for an empty row. */
function readerOf(header: string, separator: Separator, file: StockFile): LineReader | undefined {
  const names = (fieldsOf(header, separator) ?? [])
    .map(trimBlanks)
    .map((name) => [...NAMES, EXPORTED].find((own) => own.toLowerCase() === name.toLowerCase()) ?? name);
  if (names.length > 0 && names.every((name) => name === '')) return undefined;
  refuseHeader(names);
  const memberAt = NAMES.map((name) => names.indexOf(name));
  const hasStatus = names.includes('status');
  const exportedAt = names.indexOf(EXPORTED);
  file.hasExported = exportedAt >= 0;
  const needed = names.findLastIndex((name) => NAMES.includes(name)) + 1;
  const hasUnnamed = names.includes('');
  const named = names.filter((name) => name !== '').length;
  const misfit = `must have the values of the ${named} columns of the header, and no other; quotes stand around whole values, without line breaks`;
  return (line, isEnded) => {
    const fields = fieldsOf(line, separator);
    if (!fields) return [{ kind: 'fields', text: misfit }];
    if (fields.length !== names.length || fields[0] === '' || hasUnnamed) {
      if (fields.every(isBlank)) return undefined;
      if (fields.length < needed || fields.some((field, at) => !names[at] && !isBlank(field)))
        return [{ kind: 'fields', text: misfit }];
    }
    const exported = exportedAt < 0 ? undefined : (fields[exportedAt] ?? '');
    if (!isEnded && exported !== undefined && isBlank(exported)) return [NO_LINE_BREAK];
    const members = memberAt.map((at) => fields[at] ?? '');
    const reading = readRow({ members, hasStatus, exported, isJson: false });
    return typeof reading !== 'string' && fields.every(isBlank) ? undefined : reading;
  };
}

const isBlank = (field: string) => trimBlanks(field) === '';

/** @throws Failure when the columns are not those of stock */
function refuseHeader(names: readonly string[]): void {
  if (!names.some((name) => NAMES.includes(name))) throw notStock('its first line is no header');
  const refuse = (name: string, what: string) => {
    throw new Failure(`${HEADER_RULE}: the column ${quote(name)} is ${what}`);
  };
  for (const name of NAMES) if (name !== 'status' && !names.includes(name)) refuse(name, 'missing');
  for (const [at, name] of names.entries()) {
    if (![...NAMES, EXPORTED, ''].includes(name)) refuse(name, 'unknown');
    if (name !== '' && names.indexOf(name) !== at) refuse(name, 'there twice');
  }
}

/** The fields without the quotes around them; undefined where a quote stands elsewhere and is not doubled. */
function fieldsOf(line: string, separator: Separator): string[] | undefined {
  if (!line.includes('"')) return line.split(separator);
  const found = [...`${separator}${line}`.matchAll(FIELD[separator])];
  const length = found.reduce((sum, [text]) => sum + text.length, 0);
  return length > line.length ? found.map(([, quoted, bare = '']) => quoted?.replaceAll('""', '"') ?? bare) : undefined;
}

/** A field behind its separator. */
const FIELD = {
  ',': /,(?:"((?:[^"]|"")*)"|([^",]*))(?=,|$)/gy,
  ';': /;(?:"((?:[^"]|"")*)"|([^";]*))(?=;|$)/gy,
  '\t': /\t(?:"((?:[^"]|"")*)"|([^"\t]*))(?=\t|$)/gy,
};
type Separator = keyof typeof FIELD;

function* readArray(text: string, file: StockFile): Generator<string> {
  file.unit = 'item';
  const items = parseJson(text);
  if (!Array.isArray(items)) {
    const [place = ''] = / \(line \d+ column \d+\)/.exec(items instanceof Error ? items.message : '') ?? [];
    throw refusal(`the JSON array is not whole, not valid, or has a member twice in one item${place}`, 'broken');
  }
  yield items.map((item, at) => rowOf(at + 1, readItem(item, file), file)).join('');
}

/**
 * Numbers stay as they are written.
 * @returns an Error if a member is there twice, a SyntaxError if the text is no JSON
 */
function parseJson(marked: string): unknown {
  const text = marked.replace(/^\ufeff+/, '');
  try {
    const value: unknown = JSON.parse(text, (_, value: unknown, context?: { source: string }) =>
      typeof value === 'number' && context && String(value) !== context.source ? JSON.rawJSON(context.source) : value,
    );
    return duplicateMember(text) === undefined ? value : new Error('a member is there twice');
  } catch (error) {
    return error;
  }
}

function readItem(item: unknown, file: StockFile): Reading {
  if (typeof item !== 'object' || item === null || Array.isArray(item) || item instanceof Error)
    return [{ kind: 'json', text: 'must be one whole JSON object that has each member once' }];
  const members = item as Readonly<Record<string, unknown>>;
  const isExported = Object.hasOwn(members, EXPORTED);
  if (isExported) file.hasExported = true;
  const unknown = Object.keys(members).find((name) => !NAMES.includes(name) && name !== EXPORTED);
  if (unknown !== undefined) return [{ kind: 'json', text: `member ${quote(unknown)} is unknown` }];
  return readRow({
    members: MEMBERS.map(({ name, isString }) => textOf(members[name], isString)),
    hasStatus: members['status'] !== undefined,
    exported: isExported ? textOf(members[EXPORTED], true) : undefined,
    isJson: true,
  });
}

/** A value of the wrong kind (string or not) is kept as JSON, which breaks the rule. */
function textOf(value: unknown, isString: boolean): string {
  if (value === undefined || value === null) return '';
  return isString && typeof value === 'string' ? value : JSON.stringify(value);
}
