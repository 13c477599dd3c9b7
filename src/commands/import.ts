import { type Command, Option } from 'commander';
import { existsSync, statSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import type { Client } from 'pg';
import { Failure } from '../errors/error-text.js';
import { ITEM, MEMBERS } from '../inventory/stock-item.js';
import { isSafeName, SAFE_NAME_RULE } from '../inventory/stock.limits.js';
import { whileCommitting, whileInterruptible, withNewestSchema } from './connection.js';
import { lineReader, reader } from './option-values.js';
import { withoutControls } from './output.js';
import { END_MARK, type Format, FORMATS, formatOf, readStockFile } from './stock-file.js';
import {
  awaitTurn,
  loadRows,
  type Outcome,
  OUTCOMES,
  planMerge,
  refuseProblems,
  type Rules,
  streamPlanned,
  type Summary,
  tellPlanned,
  writePlanned,
} from './stock-merge.js';
import { adviceFor, type FileFacts, readers } from './stock-rows.js';
import { EXPORTED } from './stock-values.js';

const SHOWN_EVERY_MS = 2_000;
const UNSURE = 'interrupted during the commit: "inventory history" tells whether it happened';

const readReason = reader(`be ${SAFE_NAME_RULE}`, isSafeName, String);

export interface ImportOptions extends Rules {
  readonly format?: Format;
  readonly by?: string;
  readonly reason?: string;
  readonly dryRun?: true;
  readonly quiet?: true;
  readonly json?: true;
}

export function addImport(program: Command): void {
  program
    .command('import')
    .summary('Sets the stock from a file.')
    .description('Sets the stock from a file: all rows or none. Pets that do not change are not written.')
    .argument('<file>', 'the file, or - for standard input; a file named *.gz is unpacked')
    .addOption(new Option('--format <format>', 'the format of the file (default: by its name)').choices(FORMATS))
    .addOption(
      new Option('--missing <what>', 'what happens to pets that are not in the file')
        .choices(['keep', 'remove'])
        .default('keep'),
    )
    .addOption(
      new Option('--new <what>', 'what happens to rows whose pet is not in the store, if that has pets')
        .choices(['refuse', 'add', 'add-as-written'])
        .default('refuse'),
    )
    .addOption(
      new Option('--stale <what>', `what happens to edited rows whose pet has changed since the export`)
        .choices(['refuse', 'skip'])
        .default('refuse'),
    )
    .option('--by <who>', 'the author in the history (default: user@host and the name of the file)', lineReader(200))
    .option('--reason <reason>', 'why, for the history: new-arrival, return, adjustment or another word', readReason)
    .option('--dry-run', 'check the file and show the changes, but write nothing')
    .option('--quiet', 'show only errors')
    .option('--json', 'write the summary to standard output as JSON, with all pets')
    .addHelpText('after', details)
    .action(showImport);
}

const details = `
csv has a header line. ndjson has an object in each line. json is an array of such objects. Each pet has:
${MEMBERS.map(({ name, rule }) => `  ${name}: ${rule}\n`).join('')}
A file may leave out "${ITEM.status.column}": then pets keep theirs. To edit stock in a spreadsheet, use a file of "inventory export --editable":
its column "${EXPORTED}" tells an import which rows were edited, and whether the stock has changed since.
From standard input, "--missing remove" needs "${END_MARK}" as the last line, so that an interrupted transfer removes nothing:
  inventory export --end-mark | ssh elsewhere inventory import - --format csv --missing remove`;

/** What an import did, or would do. */
export interface Import {
  readonly summary: Summary;
  /** Some pets of each outcome, in words. */
  readonly told: Readonly<Partial<Record<Outcome, readonly string[]>>>;
  /** With --missing remove, whether the file tells when it was made. */
  readonly tellsTime: boolean;
  /** With --json: all pets of each outcome, as lines of a JSON array. Packed, because they wait in memory for the commit. */
  readonly pets: ReadonlyMap<Outcome, readonly Buffer[]>;
}

/** What the summary says of each outcome. */
const HEADINGS: Readonly<Record<Outcome, string>> = {
  added: 'added',
  changed: 'changed',
  removed: 'removed',
  skipped: 'skipped, because the pets have changed since the file was made',
  kept: 'kept, because they came or changed after the file was made',
  gone: 'not edited, and the pets are gone',
};

async function showImport(name: string, options: ImportOptions): Promise<void> {
  const { dryRun = false, quiet, json, missing } = options;
  const startedAt = performance.now();
  const { summary, told, tellsTime, pets } = await importStock(name, options);
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  const { added, changed, unchanged, removed, ...others } = summary;
  const rare = Object.entries(others).filter(([, count]) => count > 0);
  const counts = [
    `${added} added, ${changed} changed, ${unchanged} unchanged, ${removed} removed`,
    ...rare.map(([outcome, count]) => `${count} ${outcome}`),
  ].join(', ');
  if (!quiet) {
    for (const outcome of OUTCOMES)
      if (summary[outcome] > 0 && outcome !== 'skipped') console.error(listOf(outcome, summary, told));
    if (missing === 'remove' && !tellsTime && removed > 0)
      console.error('the file does not tell when it was made: pets that came later are removed, too');
    console.error(`${dryRun ? 'dry run, nothing was written: ' : ''}${counts} in ${seconds} s`);
  }
  if (json) await printPets({ ...summary, dryRun }, pets);
  if (summary.skipped > 0) throw new Failure(listOf('skipped', summary, told));
}

function listOf(outcome: Outcome, summary: Summary, told: Import['told']): string {
  const lines = told[outcome] ?? [];
  const more = summary[outcome] - lines.length;
  return [`${HEADINGS[outcome]}:`, ...lines, ...(more > 0 ? [`and ${more} more`] : [])].join('\n  ');
}

/** The counts as printJson writes them, then the pets piece by piece. */
async function printPets(counts: object, pets: Import['pets']): Promise<void> {
  process.stdout.write(`${JSON.stringify(counts, null, 2).slice(0, -2)},\n  "pets": {`);
  for (const [at, outcome] of OUTCOMES.entries()) {
    process.stdout.write(`${at > 0 ? ',' : ''}\n    "${outcome}": [`);
    const packed = pets.get(outcome) ?? [];
    if (packed.length > 0) {
      process.stdout.write('\n');
      await pipeline(Readable.from(packed), createGunzip(), process.stdout, { end: false });
      process.stdout.write('    ');
    }
    process.stdout.write(']');
  }
  process.stdout.write('\n  }\n}\n');
}

const toArray = (chunks: AsyncIterable<Buffer>) => Readable.from(chunks).toArray() as Promise<Buffer[]>;

/** Makes the stock what a file says, in one transaction. @throws Failure when it cannot be read or breaks a rule */
export async function importStock(name: string, options: ImportOptions): Promise<Import> {
  const { format = formatOf(name), dryRun, by = `${userName()}@${hostname()} ${basename(name)}` } = options;
  const isFile = name !== '-' && existsSync(name) && statSync(name).isFile();
  if (!format) {
    // A workbook has another name.
    if (isFile) await readStockFile(name).next();
    throw new Failure(`the name does not tell the format; add --format ${FORMATS.join(', --format ')}`);
  }
  const ending = isFile ? 'whole line' : options.missing === 'remove' ? 'mark' : 'line break';
  const unit = format === 'json' ? 'item' : 'line';
  const facts: FileFacts = {};
  let stage = 'reading';
  let pets = 0;
  let interrupted = 'interrupted: nothing was changed';
  const csv = async function* () {
    for await (const rows of readers[format](readStockFile(name), ending, facts)) {
      pets += rows.length;
      yield rows.join('');
    }
  };
  async function work(client: Client): Promise<Import> {
    const rows = await loadRows(client, csv());
    await refuseProblems(client, unit, adviceFor);
    stage = dryRun ? 'comparing' : 'writing';
    if (!dryRun) await awaitTurn(client);
    const { tellsTime, ...summary } = await planMerge(client, options, { ...facts, rows }, unit, !dryRun);
    // The name of a file may be longer than the history can store.
    const changedBy = `command:import ${withoutControls(by).slice(0, 200)}`;
    if (!dryRun) await writePlanned(client, summary, { changedBy, reason: options.reason }, unit);
    const present = OUTCOMES.filter((outcome) => summary[outcome] > 0);
    const told: Partial<Record<Outcome, readonly string[]>> = {};
    for (const outcome of present) told[outcome] = await tellPlanned(client, outcome, unit);
    const packed = new Map<Outcome, readonly Buffer[]>();
    if (options.json) {
      for (const outcome of present) {
        const lines = streamPlanned(client, outcome, unit);
        packed.set(outcome, await pipeline(lines, createGzip({ level: 1 }), toArray));
      }
    }
    if (!dryRun) {
      interrupted = UNSURE;
      await whileCommitting(UNSURE, () => client.query('COMMIT'));
      interrupted = 'interrupted after the commit: the import is done';
    }
    return { summary, told, tellsTime, pets: packed };
  }
  const startedAt = performance.now();
  const show = () => console.error(`${stage}: ${pets} pets, ${Math.round((performance.now() - startedAt) / 1_000)} s`);
  const timer = options.quiet ? undefined : setInterval(show, SHOWN_EVERY_MS);
  try {
    const tell = () => console.error(interrupted);
    return await whileInterruptible(tell, () => withNewestSchema('import', work));
  } finally {
    clearInterval(timer);
  }
}

export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? '?'}`; // a container's user may have no name
  }
}
