import { type Command, InvalidArgumentError } from 'commander';
import type { StockChange } from '../generated/prisma/client.js';
import { isPetId } from '../inventory/stock.limits.js';
import { withConnection, withPrisma } from './connection.js';
import { Failure } from './failure.js';
import { judgeHistory, pruneBefore } from './history.chain.js';
import { MOMENT_FORM, parseMoment } from './moment.js';
import { note, print, printJson, printTable } from './output.js';

const SHOWN_BROKEN = 20;

interface ShowOptions {
  readonly since?: Date;
  readonly limit: number;
  readonly verify?: true;
  readonly json?: true;
}

export function addHistory(program: Command): void {
  const history = program
    .command('history')
    .summary('show, check and prune the changes of stock')
    .description(
      'Every change of stock is one row of the history: what it was, what it became, when, and by which key, command or SQL role.',
    )
    .addHelpText('after', examples);
  history
    .command('show', { isDefault: true }) // so that a negative petId is taken for one: only a leaf command does
    .description(
      'Shows the changes of a pet, newest first, or checks the history of all pets. The word "show" can be left out.',
    )
    .argument('[petId]', 'the pet whose changes to show', readPetId)
    .option('--since <when>', `only changes since then: ${MOMENT_FORM}`, readPast)
    .option('--limit <count>', 'at most so many changes', readLimit, 50)
    .option('--verify', 'check that the changes of every pet link up and end in its present stock')
    .option('--json', 'as JSON')
    .action(async (petId: bigint | undefined, options: ShowOptions, command: Command) => {
      if ((petId === undefined) === (options.verify === undefined)) {
        command.error('error: give either a petId or --verify');
      }
      await (petId === undefined ? verify(options) : show(petId, options));
    });
  history
    .command('prune')
    .description(
      'Deletes old rows of the history. The newest row of each pet stays, so that the history can still be verified.',
    )
    .requiredOption('--before <when>', `delete changes older than this: ${MOMENT_FORM}`, readPast)
    .action(async ({ before }: { before: Date }) => {
      const deleted = await withConnection('history', (client) => pruneBefore(client, before));
      note(`${deleted} rows older than ${before.toISOString()} deleted`);
    });
}

const examples = `
Examples:
  inventory history 42 --since 7d
  inventory history --verify
  inventory history prune --before 365d
`;

async function show(petId: bigint, { since, limit, json }: ShowOptions): Promise<void> {
  const changes = await withPrisma('history', (prisma) =>
    prisma.stockChange.findMany({
      where: { petId, ...(since && { changedAt: { gte: since } }) },
      orderBy: { id: 'desc' },
      take: limit,
    }),
  );
  if (json) {
    printJson(changes);
    return;
  }
  printTable(
    ['when', 'before', 'after', 'by', 'request'],
    changes.map((change) => [
      change.changedAt.toISOString(),
      stock(change.quantityBefore, change.statusBefore),
      stock(change.quantityAfter, change.statusAfter),
      change.changedBy,
      change.requestId ?? '-',
    ]),
  );
}

async function verify({ json }: ShowOptions): Promise<void> {
  const verdict = await withConnection('history', judgeHistory);
  const { pets, brokenPets, broken } = verdict;
  if (json) printJson(verdict);
  else if (brokenPets === 0) print(`the history of all ${pets} pets is whole`);
  else for (const { petId, faults } of broken.slice(0, SHOWN_BROKEN)) print(`pet ${petId}: ${faults.join('; ')}`);
  if (brokenPets > 0) throw new Failure(`the history of ${brokenPets} of ${pets} pets is broken`);
}

function stock(quantity: StockChange['quantityAfter'], status: StockChange['statusAfter']): string {
  return quantity === null ? 'absent' : `${quantity} ${status ?? ''}`;
}

function readPetId(text: string): bigint {
  if (!isPetId(text)) throw new InvalidArgumentError('It must be an int64 in plain digits.');
  return BigInt(text);
}

function readPast(text: string): Date {
  const moment = parseMoment(text, -1);
  if (!moment) throw new InvalidArgumentError(`It must be ${MOMENT_FORM}.`);
  if (moment > new Date()) throw new InvalidArgumentError('It must lie in the past.');
  return moment;
}

function readLimit(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new InvalidArgumentError('It must be an integer from 1 to 9999999.');
  return Number(text);
}
