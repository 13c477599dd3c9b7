import { type Command, InvalidArgumentError, Option } from 'commander';
import { createKey, type IssuedKey, listKeys, revokeKey, rotateKey } from '../auth/api-key.store.js';
import { DEFAULT_SCOPES, type Scope, SCOPES } from '../auth/scopes.js';
import { withPrisma } from './connection.js';
import { DATE_TIME_FORM, DURATION_FORM, readDuration, readFuture, showDateTime } from './date-time.js';
import { printJson, printTable, withoutControls } from './output.js';

export function addKeys(program: Command): void {
  const keys = program
    .command('keys')
    .summary('issue, list, rotate and revoke API keys')
    .description('A key is shown once, when it is made, and stored as its SHA-256. Its id is no secret.');
  keys
    .command('create')
    .description('Issues a key: the key alone on standard output, everything else on standard error.')
    .requiredOption('--name <name>', 'who or what holds the key, up to 100 characters', readName)
    .addOption(
      new Option('--scope <scope...>', 'what it may do, one or several')
        .choices(SCOPES)
        .default(DEFAULT_SCOPES, DEFAULT_SCOPES.join(' and ')),
    )
    .option('--expires <when>', `when it ends: ${DATE_TIME_FORM} (default: never)`, readFuture)
    .addHelpText(
      'after',
      '\nExamples:\n  inventory keys create --name till-3 --expires 90d > till-3.key\n  inventory keys create --name prometheus --scope metrics:read\n',
    )
    .action(create);
  keys
    .command('list')
    .description('Lists all keys with their state: live, expired or revoked. "Last used" is up to ten minutes behind.')
    .option('--json', 'as a JSON array')
    .action(list);
  keys
    .command('revoke')
    .description('Revokes a key for good, at once and in all running services.')
    .argument('<id>', 'id of the key, as "inventory keys list" shows it')
    .action(revoke);
  keys
    .command('rotate')
    .description('Issues a successor with the same name and scopes. The old key expires after the overlap.')
    .argument('<id>', 'id of the key to replace')
    .addOption(
      new Option('--overlap <duration>', `how long both keys are good: ${DURATION_FORM}`)
        .argParser(readDuration)
        .default(readDuration('24h'), '24h'),
    )
    .option('--expires <when>', `when the new key ends: ${DATE_TIME_FORM} (default: never)`, readFuture)
    .addHelpText('after', '\nExample:\n  inventory keys rotate 4kd02hx9 --overlap 1h > till-3.key\n')
    .action(rotate);
}

async function create({ name, scope, expires }: { name: string; scope: Scope[]; expires?: Date }): Promise<void> {
  const data = { name, scopes: [...new Set(scope)], expiresAt: expires ?? null };
  showIssued(await withPrisma('keys', (prisma) => createKey(prisma, data)));
}

async function list({ json }: { json?: true }): Promise<void> {
  const keys = await withPrisma('keys', listKeys);
  if (json) {
    printJson(keys);
    return;
  }
  printTable(
    ['id', 'name', 'state', 'scopes', 'created', 'expires', 'last used'],
    keys.map(({ id, name, state, scopes, createdAt, expiresAt, lastUsedAt }) => [
      ...[id, name, state, scopes.join(' ')],
      ...[createdAt, expiresAt, lastUsedAt].map(showDateTime),
    ]),
  );
}

async function revoke(id: string): Promise<void> {
  const record = await withPrisma('keys', (prisma) => revokeKey(prisma, id));
  console.error(
    `key ${record.id} (${withoutControls(record.name)}) is revoked since ${showDateTime(record.revokedAt)}`,
  );
}

async function rotate(id: string, { overlap, expires }: { overlap: number; expires?: Date }): Promise<void> {
  const data = { overlapMs: overlap, expiresAt: expires ?? null };
  const issued = await withPrisma('keys', (prisma) => rotateKey(prisma, id, data));
  showIssued(issued);
  console.error(`key ${id} is good until ${showDateTime(issued.oldExpiresAt)}`);
}

function showIssued({ key, record: { id, name, scopes, expiresAt } }: IssuedKey): void {
  process.stdout.prependOnceListener('error', () => {
    console.error(`error: key ${id} was not delivered, and cannot be shown again: revoke it`);
    process.exit(1);
  });
  console.log(key);
  const end = expiresAt === null ? 'it never expires' : `it expires ${showDateTime(expiresAt)}`;
  console.error(`key ${id} for ${withoutControls(name)}: ${scopes.join(', ')}; ${end}`);
  console.error('this is the only time it is shown');
}

function readName(text: string): string {
  if (!/^[^\p{Cc}]{1,100}$/u.test(text)) throw new InvalidArgumentError('It must have 1 to 100 printable characters.');
  return text;
}
