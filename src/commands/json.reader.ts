import { JsonArrayScanner, type JsonItem } from './json-array.scanner.js';
import { type Problems, quote } from './problems.js';
import { MEMBERS, type StockLine } from './stock.line.js';

/** No sound pet is longer; what is never closed must not gather the whole file in memory. */
const LONGEST_ITEM = 10_000;

/** Reads NDJSON: one JSON object a line; empty lines are skipped. */
export async function* readNdjson(chunks: AsyncIterable<Buffer>, problems: Problems): AsyncGenerator<StockLine[]> {
  let line = 0;
  let rest = '';
  for await (const text of decode(chunks)) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    yield readItems(
      lines.map((each) => ({ text: each, line: ++line })),
      problems,
    );
    if (rest.length > LONGEST_ITEM) {
      problems.add(line + 1, `is longer than ${LONGEST_ITEM} characters; nothing from here on was read`);
      return;
    }
  }
  yield readItems([{ text: rest, line: line + 1 }], problems);
}

/** Reads one JSON array of objects, item by item, so that its length does not matter. */
export async function* readJson(chunks: AsyncIterable<Buffer>, problems: Problems): AsyncGenerator<StockLine[]> {
  const array = new JsonArrayScanner(LONGEST_ITEM);
  for await (const text of decode(chunks)) {
    yield readItems(array.scan(text), problems);
    if (array.fault) break;
  }
  const fault = array.fault ?? array.faultAtEnd();
  if (fault) problems.add(array.line, `${fault}; nothing from here on was read`);
}

async function* decode(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder(); // takes a BOM away
  for await (const chunk of chunks) yield decoder.decode(chunk, { stream: true });
  yield decoder.decode();
}

function readItems(items: JsonItem[], problems: Problems): StockLine[] {
  return items.map((item) => readItem(item, problems)).filter((line) => line !== undefined);
}

/** What is wrong with an item's form is noted here, with its values where all formats are checked. */
function readItem({ text, line }: JsonItem, problems: Problems): StockLine | undefined {
  if (text.trim() === '') return undefined;
  let item: unknown;
  try {
    item = JSON.parse(text, keepDigits);
  } catch {
    problems.add(line, 'is not valid JSON');
    return undefined;
  }
  if (typeof item !== 'object' || item === null || Array.isArray(item)) {
    problems.add(line, 'must be a JSON object');
    return undefined;
  }
  const { petId, quantity, status, ...others } = item as Record<string, unknown>;
  const unknown = Object.keys(others);
  for (const name of unknown) problems.add(line, `member ${quote(name)} is unknown`);
  const sound = unknown.length === 0 && MEMBERS.every((name) => name in item);
  // JSON.parse lets the last of two equal members win. In a sound item each colon belongs to a member.
  if (sound && text.split(':').length - 1 > MEMBERS.length)
    problems.add(line, 'has a member twice, or a colon in a value');
  return {
    line,
    petId: textOf(petId),
    quantity: textOf(quantity),
    status: typeof status === 'string' ? status : textOf(status),
  };
}

class Digits {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A petId is taken as it is written, never as a number, which would round it. */
function keepDigits(name: string, value: unknown, context?: { source?: string }): unknown {
  return name === 'petId' && typeof value === 'number' ? new Digits(context?.source ?? '') : value;
}

/** The value in the form in which the rules want it; what has the wrong type as JSON, which no rule takes. */
function textOf(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value instanceof Digits) return value.text;
  return typeof value === 'number' ? String(value + 0) : JSON.stringify(value);
}
