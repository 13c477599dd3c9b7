import { type Command, Help, Option } from 'commander';
import { once } from 'node:events';
import { STATE } from '../inventory/item.ts';
import { isPetId } from '../inventory/item-limits.ts';
import { LONG_STATEMENTS, withConnection, withNewestSchema, withPrisma } from './connection.ts';
import { Failure, queryOfClient, queryOfPrisma } from '../lib/postgres/index.ts';
import { type Change, readChanges } from '../history/history-feed.ts';
import { pruneBefore } from '../history/history-pruning.ts';
import { type Search, searchHistory } from '../history/history-search.ts';
import { verifyHistory } from '../history/history-verification.ts';
import { waitForOpenWriters } from '../history/open-writers.ts';
import { lineReader, PAST_FORM, reader, readPast, readSafeName, type When } from './option-values.ts';
import { printJson, printTable } from './output.ts';
import { withProgress } from './progress.ts';
import { SHOWN_AT_MOST, withoutControls } from '../safe-text.ts';

const BROKEN = `The stock is as the list shows it. Changes of these pets are missing in the history, or were altered: somebody wrote with
the triggers off, or restored or edited one of the two tables. "inventory history <petId>" shows the changes around it.
New changes are recorded as always. A pet verifies again once it has changed anew and the older changes are pruned.`;

const AUTHORS = '; authors are key:<id or name>, command:<name> and sql:<role>';

const readPetId = reader('be an int64 in plain digits', isPetId, BigInt);
const readChangeId = reader('be the id of a change, or 0', (text) => isPetId(text) && !text.startsWith('-'), BigInt);
const readLimit = reader('be an integer from 1 to 100000', (text) => /^([1-9]\d{0,4}|100000)$/.test(text), Number);

/** A search takes these, and no other work does. */
const SEARCH = ['since', 'request', 'by'];

interface ShowOptions extends Omit<Search, 'since'> {
  readonly since?: When;
  readonly limit: number;
  readonly after?: bigint;
  readonly follow?: true;
  readonly verify?: true;
  readonly json?: true;
}

export function addHistory(program: Command): void {
  const history = program.command('history').description('Shows, follows, checks and prunes the changes of the stock.');
  const show = history
    .command('show', { isDefault: true, hidden: true }) // only a command without subcommands takes -1 for an argument
    .argument('[petId]', 'show the changes of this pet, newest first (default: all pets)', readPetId)
    .option('--since <when>', `only changes since then: ${PAST_FORM}`, readPast)
    .option('--request <id>', 'only changes by the request with this X-Request-Id', readSafeName)
    .option('--by <author>', 'only changes by this author; of a key, also by its name: key:till-3', lineReader(1_000))
    .option('--limit <count>', 'the most changes to show, or to begin with if --follow is given', readLimit, 50)
    .addOption(
      new Option('--after <id>', 'all changes of all pets after this one, each once, by ascending id')
        .argParser(readChangeId)
        .conflicts([...SEARCH, 'limit', 'verify']),
    )
    .addOption(new Option('--follow', 'continue with new changes as they happen').conflicts([...SEARCH, 'verify']))
    .addOption(
      new Option('--verify', 'check that each history is unbroken and ends in the stock').conflicts([
        ...SEARCH,
        'limit',
      ]),
    )
    .option('--json', 'print JSON; with --after or --follow, one object per line')
    .action(async (petId: bigint | undefined, options: ShowOptions, command: Command) => {
      const isFeed = options.after !== undefined || options.follow === true;
      if (petId !== undefined && (isFeed || options.verify)) {
        command.error('error: --verify, --after and --follow are for all pets: leave the petId out');
      }
      await (isFeed ? feed(options) : options.verify ? verify(options) : search(petId, options));
    });
  history
    .command('cursor')
    .description('Prints the id of the newest change, for --after. A later export has all changes up to it.')
    .action(async () => {
      const { newest } = await withPrisma('history', (prisma) => waitForOpenWriters(queryOfPrisma(prisma)));
      console.log(String(newest));
    });
  history
    .command('prune')
    .description('Deletes old changes. It keeps the newest change of each pet, so that --verify still works.')
    .requiredOption('--before <when>', `delete changes older than this: ${PAST_FORM}`, readPast)
    .action(async ({ before }: { before: When }) => {
      await withNewestSchema('history', async (client) => {
        const time = await before(queryOfClient(client));
        let deleted = 0;
        const prune = () => pruneBefore(client, time, (count) => (deleted = count));
        deleted = await withProgress(() => `${deleted} rows deleted`, prune);
        console.error(`${deleted} rows older than ${time.toISOString()} deleted`);
      });
    });
  const ofShow = new Help();
  history
    .usage('[options] [petId]')
    .configureHelp({
      visibleArguments: () => ofShow.visibleArguments(show),
      visibleOptions: () => ofShow.visibleOptions(show),
    })
    .addHelpText('after', '\nExample:\n  inventory history --follow --json --after "$(inventory history cursor)"');
}

async function search(petId: bigint | undefined, { limit, json, since, ...options }: ShowOptions): Promise<void> {
  const found = await withPrisma('history', async (prisma) => {
    const time = since && { since: await since(queryOfPrisma(prisma)) };
    return searchHistory(prisma, { ...options, ...time, ...(petId !== undefined && { petId }) }, limit + 1);
  });
  const shown = found.slice(0, limit);
  if (json) printJson(shown);
  else if (found.length === 0) console.error(`no change found${/^\w+:|^$/.test(options.by ?? '') ? '' : AUTHORS}`);
  else printTable(['id', 'pet', 'when', 'before', 'after', 'by', 'request', 'reason'], shown.map(cells));
  if (found.length > limit) console.error('there are older changes; --limit shows more of them');
}

async function feed(options: ShowOptions): Promise<void> {
  if (options.follow)
    for (const signal of ['SIGINT', 'SIGTERM']) process.prependListener(signal, () => process.exit(0));
  await withPrisma('history', async (prisma) => {
    for await (const changes of readChanges(prisma, options, console.error)) {
      for (const change of changes) {
        if (options.json) printJson(change, 0);
        else console.log(cells(change).map(withoutControls).join('  '));
      }
      // Otherwise, what a slow reader has not taken yet would gather in memory.
      if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
    }
  });
}

function cells(change: Change): string[] {
  const { id, petId, changedAt, changedBy, requestId, reason } = change;
  const [before = '', after = ''] = ['Before', 'After'].map((when) => {
    const values = STATE.map(({ name }) => (change as Readonly<Record<string, unknown>>)[name + when]);
    const present = values.filter((value) => value !== null);
    return present.map(String).join(' ') || 'absent';
  });
  return [
    String(id),
    String(petId),
    changedAt.toISOString(),
    before,
    after,
    changedBy,
    requestId ?? '-',
    reason ?? '-',
  ];
}

async function verify({ json }: ShowOptions): Promise<void> {
  const verification = await withConnection('history', async (client) => {
    await client.query(`BEGIN READ ONLY; ${LONG_STATEMENTS}`);
    const verified = await withProgress(
      () => 'verifying',
      () => verifyHistory(client),
    );
    await client.query('COMMIT'); // a pooler ends its session with a client that leaves in a transaction
    return verified;
  });
  const { pets, brokenPets, broken } = verification;
  if (pets === 0) throw new Failure('there is nothing to verify: the stock and its history are empty');
  if (json) printJson(verification);
  else if (brokenPets === 0) console.log(`the history of all ${pets} pets is whole`);
  else
    for (const { petId, faults } of broken.slice(0, SHOWN_AT_MOST)) console.log(`pet ${petId}: ${faults.join('; ')}`);
  if (brokenPets > 0) throw new Failure(`the history of ${brokenPets} of ${pets} pets is broken\n${BROKEN}`);
}
