import { type Command, Option } from 'commander';
import { fstatSync, statSync } from 'node:fs';
import { devNull } from 'node:os';
import { makeKeyId } from '../keys/api-key-format.ts';
import { createKey, type KeyRecord, listKeys, revokeKey, rotateKey } from '../keys/api-key-store.ts';
import { DEFAULT_SCOPES, type Scope, SCOPES } from '../keys/scopes.ts';
import { Failure, queryOfPrisma } from '../lib/postgres/index.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { whileCommitting, whileInterruptible, withPrisma } from './connection.ts';
import { FUTURE_FORM, DURATION_FORM, lineReader, readDuration, readFuture, type When } from './option-values.ts';
import { printJson, printTable, showDateTime } from './output.ts';
import { withoutControls } from '../safe-text.ts';

export function addKeys(program: Command): void {
  const keys = program.command('keys').description('Issues, lists, rotates and revokes API keys.');
  const ending = () => new Option('--expires <when>', `when the key expires: ${FUTURE_FORM} (default: never)`);
  keys
    .command('create')
    .description('Issues a key. Standard output gets only the key, once; standard error gets everything else.')
    .requiredOption('--name <name>', 'the holder of the key, up to 100 characters', lineReader(100))
    .addOption(new Option('--scope <scope...>', 'what the key may do').choices(SCOPES).default(DEFAULT_SCOPES))
    .addOption(ending().argParser(readFuture))
    .addHelpText('after', '\nExample:\n  inventory keys create --name till-3 --expires 90d > till-3.key')
    .action(create);
  keys
    .command('list')
    .description('Lists all keys with their state: live, expired or revoked. "Last used" is up to ten minutes behind.')
    .option('--json', 'print a JSON array')
    .action(list);
  keys
    .command('revoke')
    .description('Revokes a key for good, at once in every process; at /metrics, once the database answers.')
    .argument('<id>', 'id of the key, as "inventory keys list" shows it')
    .action(revoke);
  keys
    .command('rotate')
    .description(
      'Issues a successor with the same name and scopes. The old key expires after the overlap. It has one successor.',
    )
    .argument('<id>', 'id of the key to replace')
    .option('--overlap <duration>', `how long both keys are valid: ${DURATION_FORM} (default: 24h)`, readDuration)
    .addOption(ending().argParser(readFuture))
    .action(rotate);
}

async function create({ name, scope, expires }: { name: string; scope: Scope[]; expires?: When }): Promise<void> {
  refuseNullDevice();
  const id = makeKeyId();
  const advice = 'if "inventory keys list" shows it, revoke it';
  await write(`${mayBeMade(id)}; ${advice}`, async (prisma) => {
    const expiresAt = (await expires?.(queryOfPrisma(prisma))) ?? null;
    const { key, record } = await createKey(prisma, { id, name, scopes: [...new Set(scope)], expiresAt });
    showIssued(key, record);
  });
}

async function list({ json }: { json?: true }): Promise<void> {
  const keys = await withPrisma('keys', listKeys);
  const rows = keys.map(({ id, name, state, scopes, createdAt, expiresAt, lastUsedAt }) => [
    ...[id, name, state, scopes.join(' ')],
    ...[createdAt, expiresAt, lastUsedAt].map(showDateTime),
  ]);
  if (json) printJson(keys);
  else printTable(['id', 'name', 'state', 'scopes', 'created', 'expires', 'last used'], rows);
}

async function revoke(id: string): Promise<void> {
  await write(`interrupted during the commit: key ${id} may still be good; revoke it again`, async (prisma) => {
    const { name, revokedAt } = await revokeKey(prisma, id);
    console.error(`key ${id} (${withoutControls(name)}) is revoked since ${showDateTime(revokedAt)}`);
  });
}

async function rotate(id: string, { overlap, expires }: { overlap?: number; expires?: When }): Promise<void> {
  refuseNullDevice();
  const rotation = { oldId: id, id: makeKeyId(), overlapMs: overlap ?? readDuration('24h') };
  const advice = `if "inventory keys list" shows it, revoke it, and rotate key ${id} again before it expires`;
  await write(`${mayBeMade(rotation.id)}; ${advice}`, async (prisma) => {
    const expiresAt = (await expires?.(queryOfPrisma(prisma))) ?? null;
    const { key, record } = await rotateKey(prisma, { ...rotation, expiresAt });
    showIssued(key, record);
    console.error(`key ${id} is good until ${showDateTime(record.oldExpiresAt)}`);
  });
}

/** Node.js puts the null device in the place of a closed output, too. */
function refuseNullDevice(): void {
  if (fstatSync(process.stdout.fd).rdev === statSync(devNull).rdev)
    throw new Failure('standard output goes nowhere: the key would be lost');
}

const mayBeMade = (id: string) => `interrupted during the commit: key ${id} may have been made, but was not shown`;

/** Runs work that commits and prints its outcome. If a signal or a lost connection comes between, prints `unsure`. */
async function write(unsure: string, work: (prisma: PrismaClient) => Promise<void>): Promise<void> {
  let message: string | undefined = 'interrupted: nothing was done';
  const onSignal = () => message === undefined || console.error(message);
  const run = async (prisma: PrismaClient) => {
    await prisma.$queryRaw`SELECT 1`; // connects: before that, nothing can be lost
    message = unsure;
    await whileCommitting(unsure, () => work(prisma));
    message = undefined;
  };
  await whileInterruptible(onSignal, () => withPrisma('keys', run));
}

function showIssued(key: string, { id, name, scopes, expiresAt }: KeyRecord): void {
  process.stdout.prependOnceListener('error', () => {
    console.error(`error: key ${id} was not delivered, and cannot be shown again: revoke it`);
    process.exit(1);
  });
  console.log(key);
  const end = expiresAt === null ? 'it never expires' : `it expires ${showDateTime(expiresAt)}`;
  console.error(`key ${id} for ${withoutControls(name)}: ${scopes.join(', ')}; ${end}`);
  console.error('this is the only time it is shown');
}
