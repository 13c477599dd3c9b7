import { type Command, Option } from 'commander';
import { hostname, userInfo } from 'node:os';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import type { Client } from 'pg';
import { Failure } from '../lib/postgres/index.ts';
import { MEMBERS } from '../inventory/item.ts';
import { whileCommitting, whileInterruptible, withNewestSchema } from './connection.ts';
import { END_MARK, EXPORTED } from './export.ts';
import { readText } from './import/file-text.ts';
import { readRows } from './import/formats.ts';
import { awaitTurn, loadRows, type Outcome, OUTCOMES, planMerge, type Rules } from './import/plan.ts';
import { ADVICE } from './import/problems.ts';
import { refusePlanned, refuseProblems } from './import/refusals.ts';
import { StockFile } from './import/rows.ts';
import { jsonOf, linesOf } from './import/summary.ts';
import { writePlanned } from './import/writing.ts';
import { lineReader, readSafeName } from './option-values.ts';
import { withProgress } from './progress.ts';
import { withoutControls } from '../safe-text.ts';

const UNSURE = `interrupted during the commit: ${ADVICE.commit}`;

export interface ImportOptions extends Rules {
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
    .addOption(
      new Option('--missing <what>', 'what happens to pets that are not in the file')
        .choices(['keep', 'remove'])
        .default('keep'),
    )
    .addOption(
      new Option(
        '--new <what>',
        'what happens to rows whose pet is not in the store, if that has pets; add-as-written also takes ids that may be rounded',
      )
        .choices(['refuse', 'add', 'add-as-written'])
        .default('refuse'),
    )
    .addOption(
      new Option('--stale <what>', `what happens to edited rows whose pet has changed since the export`)
        .choices(['refuse', 'skip'])
        .default('refuse'),
    )
    .option('--by <who>', 'the author in the history (default: user@host and the name of the file)', lineReader(200))
    .option('--reason <reason>', 'why, for the history: new-arrival, return, adjustment or another word', readSafeName)
    .option('--dry-run', 'check the file and show the changes, but write nothing')
    .option('--quiet', 'show only errors')
    .option('--json', 'write the summary to standard output as JSON, with all pets')
    .addHelpText('after', details)
    .action(showImport);
}

const details = `
The file is CSV with a header line, JSON with an object in each line, or a JSON array of such objects. Each pet has:
${MEMBERS.map(({ name, rule }) => `  ${name}: ${rule}\n`).join('')}
A file may leave out status: then pets keep theirs. To edit stock in a spreadsheet, use a file of "inventory export --editable":
its column "${EXPORTED}" tells an import which rows were edited, and whether the stock has changed since.
"--missing remove" needs an end mark as the last line: a file that was cut removes nothing. "${END_MARK} <id> <time>", by "inventory export
--end-mark", names a change of this store: pets that came or changed after it stay. "${END_MARK}" alone removes all pets that the file lacks.
To make another store a mirror of this one:
  (inventory export && echo '${END_MARK}') | ssh elsewhere inventory import - --missing remove --new add-as-written`;

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
  const startedAt = performance.now();
  const { summary, lines, hasTime, json } = await importStock(name, options);
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  const listOf = (outcome: Outcome) => {
    const shown = lines[outcome] ?? [];
    const more = summary[outcome] - shown.length;
    return [`${HEADINGS[outcome]}:`, ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n  ');
  };
  if (!options.quiet) {
    for (const outcome of OUTCOMES) if (summary[outcome] > 0 && outcome !== 'skipped') console.error(listOf(outcome));
    if (options.missing === 'remove' && !hasTime && summary.removed > 0)
      console.error('the file does not tell when it was made: pets that came later are removed, too');
    const always = ['added', 'changed', 'unchanged', 'removed'];
    const counts = Object.entries(summary).filter(([outcome, count]) => count > 0 || always.includes(outcome));
    const counted = counts.map(([outcome, count]) => `${count} ${outcome}`).join(', ');
    console.error(`${options.dryRun ? 'dry run, nothing was written: ' : ''}${counted} in ${seconds} s`);
  }
  if (options.json) await pipeline(Readable.from(json), createGunzip(), process.stdout, { end: false });
  if (summary.skipped > 0) throw new Failure(listOf('skipped'));
}

/** Makes the stock what a file says, in one transaction. @throws Failure when it cannot be read or breaks a rule */
export async function importStock(name: string, options: ImportOptions) {
  const { dryRun = false, by = `${userName()}@${hostname()} ${basename(name)}`, reason } = options;
  const file = new StockFile();
  let progress = () => `${file.rows} rows read`;
  let interrupted = 'interrupted: nothing was changed';
  async function work(client: Client) {
    await loadRows(client, readRows(readText(name), options.missing === 'remove', file));
    await refuseProblems(client, options, file);
    if (!dryRun) await awaitTurn(client);
    progress = () => `comparing ${file.rows} rows`;
    const counts = await planMerge(client, options, file, !dryRun);
    await refusePlanned(client, options, file, counts);
    // The name of a file may be longer than the history can store.
    const changedBy = `command:import ${withoutControls(by).slice(0, 200)}`;
    const { added = 0, changed = 0, removed = 0, skipped = 0, kept = 0, gone = 0 } = counts;
    progress = () => `writing ${added + changed + removed} rows`;
    if (!dryRun) await writePlanned(client, counts, changedBy, reason);
    const unchanged = file.rows - added - changed - skipped - gone;
    const summary = { added, changed, unchanged, removed, skipped, kept, gone };
    const lines: Partial<Record<Outcome, readonly string[]>> = {};
    for (const outcome of OUTCOMES)
      if (summary[outcome] > 0) lines[outcome] = await linesOf(client, outcome, file.unit);
    // Packed, because it waits in memory for the commit.
    const text = options.json ? jsonOf(client, { ...summary, dryRun }, file.unit) : [];
    const json = await pipeline(text, createGzip({ level: 1 }), (packed) => Readable.from(packed).toArray());
    if (!dryRun) {
      interrupted = UNSURE;
      await whileCommitting(UNSURE, () => client.query('COMMIT'));
      interrupted = 'interrupted after the commit: the import is done';
    }
    return { summary, lines, hasTime: file.newest !== undefined, json: json as Buffer[] };
  }
  const onSignal = () => console.error(interrupted);
  const run = () =>
    withProgress(
      () => progress(),
      () => withNewestSchema('import', work),
      !options.quiet,
    );
  return whileInterruptible(onSignal, run);
}

export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? '?'}`; // a container's user may have no name
  }
}
