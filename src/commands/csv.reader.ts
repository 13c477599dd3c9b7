import { CsvError, parse } from 'csv-parse';
import { type Problems, quote } from './problems.js';
import { MEMBERS, type Member, type StockLine } from './stock.line.js';

/** No sound line is longer; a quote that is never closed must not gather the whole file in memory. */
const LONGEST_RECORD = 10_000;

type Columns = Readonly<Record<Member, number>> & { readonly width: number };

/**
 * Reads CSV (RFC 4180, UTF-8 with or without BOM, any line ends) whose first line names the columns, in any order.
 * What it cannot read it notes as a problem. After broken quoting it reads no further: any line could be inside the quotes.
 */
export async function* readCsv(chunks: AsyncIterable<Buffer>, problems: Problems): AsyncGenerator<StockLine[]> {
  let columns: Columns | 'broken' | undefined;
  let lastLine = 0;
  let batch: StockLine[] = [];
  const parser = parse({
    bom: true,
    max_record_size: LONGEST_RECORD,
    relax_column_count: true,
    skip_empty_lines: true,
    on_record: (fields: string[], { lines: line }) => {
      lastLine = line;
      if (columns === undefined) columns = readHeader(fields, line, problems);
      else if (columns !== 'broken') {
        if (fields.length === columns.width) batch.push(pick(fields, columns, line));
        else
          problems.add(
            line,
            `has ${fields.length} field${fields.length === 1 ? '' : 's'} where the header has ${columns.width}`,
          );
      }
      return null; // taken from here, so that parsing needs no second stream
    },
  });
  parser.resume();
  parser.on('error', () => undefined); // comes to the callbacks below as well
  try {
    for await (const chunk of chunks) {
      await settled((done) => parser.write(chunk, done));
      yield batch;
      batch = [];
      if ((columns as unknown) === 'broken') return;
    }
    await settled((done) => parser.end(done));
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    problems.add(lastLine + 1, `${ruleBrokenBy(error)}; nothing from here on was read`);
  }
  yield batch;
  if (columns === undefined && problems.count === 0) problems.add(1, `the header ${MEMBERS.join(',')} is missing`);
}

function readHeader(names: string[], line: number, problems: Problems): Columns | 'broken' {
  const before = problems.count;
  for (const name of MEMBERS) {
    const times = names.filter((each) => each === name).length;
    if (times !== 1)
      problems.add(line, `column ${name} ${times === 0 ? 'is missing' : 'is there twice'} in the header`);
  }
  for (const name of new Set(names)) {
    if (!(MEMBERS as readonly string[]).includes(name)) problems.add(line, `column ${quote(name)} is unknown`);
  }
  if (problems.count > before) return 'broken';
  const [petId, quantity, status] = MEMBERS.map((name) => names.indexOf(name)) as [number, number, number];
  return { petId, quantity, status, width: names.length };
}

function pick(fields: string[], columns: Columns, line: number): StockLine {
  return { line, petId: fields[columns.petId], quantity: fields[columns.quantity], status: fields[columns.status] };
}

function ruleBrokenBy({ code }: CsvError): string {
  switch (code as string) {
    case 'CSV_QUOTE_NOT_CLOSED':
      return 'a quoted field is never closed';
    case 'CSV_INVALID_CLOSING_QUOTE':
      return 'a quoted field goes on after its closing quote';
    case 'INVALID_OPENING_QUOTE':
      return 'a quote stands inside a field that is not quoted';
    case 'CSV_MAX_RECORD_SIZE':
      return `is longer than ${LONGEST_RECORD} characters, or a quoted field is never closed`;
    default:
      return 'is not CSV';
  }
}

function settled(start: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    start((error) => {
      if (error) reject(error);
      else resolve();
    });
  });
}
