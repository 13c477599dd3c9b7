import { type Command, InvalidArgumentError, Option } from 'commander';
import { once } from 'node:events';
import type { StockChange } from '../generated/prisma/client.js';
import { STATE } from '../inventory/stock-item.js';
import { isPetId } from '../inventory/stock.limits.js';
import { withConnection, withNewestSchema, withPrisma } from './connection.js';
import { Failure } from '../errors/error-text.js';
import { verifyHistory, pruneBefore } from './history-chain.js';
import { readChanges, settled } from './history-feed.js';
import { DATE_TIME_FORM, readPast } from './date-time.js';
import { printJson, printTable, withoutControls } from './output.js';

const SHOWN_BROKEN = 20;

const BROKEN = `The stock is as the list shows it. Changes of these pets are missing in the history, or were altered: somebody wrote with
the triggers off, or restored or edited one of the two tables. "inventory history <petId>" shows the changes around it.
New changes are recorded as always. A pet verifies again once it has changed anew and the older changes are pruned.`;

interface ShowOptions {
  readonly since?: Date;
  readonly limit: number;
  readonly after?: bigint;
  readonly follow?: true;
  readonly verify?: true;
  readonly json?: true;
}

export function addHistory(program: Command): void {
  const history = program
    .command('history')
    .summary('show, check and prune the changes of stock')
    .description('Each change of stock: what it was, what it became, when, and by which key, command or SQL role.')
    .addHelpText('after', examples);
  history
    .command('show', { isDefault: true }) // so that a negative petId is taken for one: only a leaf command does
    .description('Shows changes, newest first; follows them; or checks them. The word "show" can be left out.')
    .argument('[petId]', 'the pet whose changes to show (default: all pets)', readPetId)
    .option('--since <when>', `only changes since then: ${DATE_TIME_FORM}`, readPast)
    .option('--limit <count>', 'at most so many changes; with --follow, so many to begin with', readLimit, 50)
    .addOption(
      new Option('--after <id>', 'all changes of all pets behind this one, oldest first')
        .argParser(readChangeId)
        .conflicts(['since', 'limit', 'verify']),
    )
    .addOption(new Option('--follow', 'go on with the changes of all pets as they come').conflicts(['since', 'verify']))
    .addOption(
      new Option('--verify', 'check that the changes of every pet link up and end in its present stock').conflicts([
        'since',
        'limit',
      ]),
    )
    .option('--json', 'as JSON; with --after and --follow an object a line')
    .addHelpText('after', examples)
    .action(async (petId: bigint | undefined, options: ShowOptions, command: Command) => {
      const isFeed = options.after !== undefined || options.follow === true;
      if (petId !== undefined && (isFeed || options.verify)) {
        command.error('error: --verify, --after and --follow are for all pets: leave the petId out');
      }
      await (isFeed ? feed(options) : options.verify ? verify(options) : show(petId, options));
    });
  history
    .command('cursor')
    .summary('print where to begin with --after')
    .description(
      'Prints the id to begin behind with --after. A stock that is read afterwards has all changes up to it.',
    )
    .action(async () => {
      const { newest } = await withPrisma('history', settled);
      console.log(String(newest));
    });
  history
    .command('prune')
    .description('Deletes old changes. The newest of each pet stays, so that the history can still be verified.')
    .requiredOption('--before <when>', `delete changes older than this: ${DATE_TIME_FORM}`, readPast)
    .action(async ({ before }: { before: Date }) => {
      const deleted = await withNewestSchema('history', (client) => pruneBefore(client, before));
      console.error(`${deleted} rows older than ${before.toISOString()} deleted`);
    });
}

const examples = `
Examples:
  inventory history 42 --since 7d
  inventory history --verify
  inventory history prune --before 365d
  inventory history --after 0 --json > changes.ndjson
  inventory history cursor > last-id
  inventory history --follow --json --after "$(cat last-id)" | while read -r change; do ...; done

With --after or --follow every change comes once, by rising id. Keep the id of the last line you have dealt with.
`;

async function show(petId: bigint | undefined, { since, limit, json }: ShowOptions): Promise<void> {
  const changes = await withPrisma('history', (prisma) =>
    prisma.stockChange.findMany({
      where: { ...(petId !== undefined && { petId }), ...(since && { changedAt: { gte: since } }) },
      orderBy: { id: 'desc' },
      take: limit + 1,
    }),
  );
  if (changes.splice(limit).length > 0) console.error('there are older changes; --limit shows more of them');
  if (json) {
    printJson(changes);
    return;
  }
  printTable(['id', 'pet', 'when', 'before', 'after', 'by', 'request'], changes.map(cells));
}

async function feed(options: ShowOptions): Promise<void> {
  if (options.follow)
    for (const signal of ['SIGINT', 'SIGTERM']) process.prependListener(signal, () => process.exit(0));
  await withPrisma('history', async (prisma) => {
    for await (const changes of readChanges(prisma, options)) {
      for (const change of changes) {
        if (options.json) printJson(change, 0);
        else console.log(cells(change).map(withoutControls).join('  '));
      }
      // What a slow reader has not taken yet would gather in memory.
      if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
    }
  });
}

function cells(change: StockChange): string[] {
  return [
    String(change.id),
    String(change.petId),
    change.changedAt.toISOString(),
    stock(change, 'Before'),
    stock(change, 'After'),
    change.changedBy,
    change.requestId ?? '-',
  ];
}

async function verify({ json }: ShowOptions): Promise<void> {
  const verification = await withConnection('history', verifyHistory);
  const { pets, brokenPets, broken } = verification;
  if (pets === 0) throw new Failure('there is nothing to verify: the stock and its history are empty');
  if (json) printJson(verification);
  else if (brokenPets === 0) console.log(`the history of all ${pets} pets is whole`);
  else for (const { petId, faults } of broken.slice(0, SHOWN_BROKEN)) console.log(`pet ${petId}: ${faults.join('; ')}`);
  if (brokenPets > 0) throw new Failure(`the history of ${brokenPets} of ${pets} pets is broken\n${BROKEN}`);
}

function stock(change: Readonly<Record<string, unknown>>, when: 'Before' | 'After'): string {
  const values = STATE.map(({ name }) => change[name + when] as string | number | null);
  return values.filter((value) => value !== null).join(' ') || 'absent';
}

function readPetId(text: string): bigint {
  if (!isPetId(text)) throw new InvalidArgumentError('It must be an int64 in plain digits.');
  return BigInt(text);
}

function readChangeId(text: string): bigint {
  if (!isPetId(text) || text.startsWith('-')) throw new InvalidArgumentError('It must be the id of a change, or 0.');
  return BigInt(text);
}

function readLimit(text: string): number {
  if (!/^(?:[1-9]\d{0,4}|100000)$/.test(text))
    throw new InvalidArgumentError('It must be an integer from 1 to 100000.');
  return Number(text);
}
