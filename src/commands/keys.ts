import { type Command, InvalidArgumentError, Option } from 'commander';
import { createKey, type KeyRecord, listKeys, revokeKey, rotateKey, stateOfKey } from '../auth/api-key.store.js';
import { DEFAULT_SCOPES, type Scope, SCOPES } from '../auth/scopes.js';
import { withPrisma } from './connection.js';
import { DATE_TIME_FORM, DURATION_FORM, readDuration, readFuture, showDateTime } from './date-time.js';
import { note, print, printJson, printTable } from './output.js';

export function addKeys(program: Command): void {
  const keys = program
    .command('keys')
    .summary('issue, list, rotate and revoke API keys')
    .description(
      'API keys. A key is shown once, when it is made, and stored only as its SHA-256; its id is no secret.',
    );
  keys
    .command('create')
    .description('Issues a key: the key alone on standard output, everything else on standard error.')
    .requiredOption('--name <name>', 'who or what holds the key, up to 100 characters', readName)
    .addOption(scopeOption())
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
    .description(
      'Issues a successor with the same name and scopes. The old key stays good for the overlap, then it expires.',
    )
    .argument('<id>', 'id of the key to replace')
    .option('--overlap <duration>', `how long both keys are good: ${DURATION_FORM}`, readDuration, readDuration('24h'))
    .option('--expires <when>', `when the new key ends: ${DATE_TIME_FORM} (default: never)`, readFuture)
    .addHelpText('after', '\nExample:\n  inventory keys rotate 4kd02hx9 --overlap 1h > till-3.key\n')
    .action(rotate);
}

async function create({ name, scope, expires }: { name: string; scope: Scope[]; expires?: Date }): Promise<void> {
  const { key, record } = await withPrisma('keys', (prisma) =>
    createKey(prisma, { name, scopes: scope, expiresAt: expires ?? null }),
  );
  print(key);
  note(`key ${record.id} for ${record.name}: ${record.scopes.join(', ')}; ${endOf(record)}`);
  note('this is the only time it is shown');
}

async function list({ json }: { json?: true }): Promise<void> {
  const { keys, now } = await withPrisma('keys', listKeys);
  if (json) {
    printJson(keys.map((key) => ({ ...key, state: stateOfKey(key, now) })));
    return;
  }
  printTable(
    ['id', 'name', 'state', 'scopes', 'created', 'expires', 'last used'],
    keys.map((key) => [
      key.id,
      key.name,
      stateOfKey(key, now),
      key.scopes.join(' '),
      showDateTime(key.createdAt),
      showDateTime(key.expiresAt),
      showDateTime(key.lastUsedAt),
    ]),
  );
}

async function revoke(id: string): Promise<void> {
  const record = await withPrisma('keys', (prisma) => revokeKey(prisma, id));
  note(`key ${record.id} (${record.name}) is revoked since ${showDateTime(record.revokedAt)}`);
}

async function rotate(id: string, { overlap, expires }: { overlap: number; expires?: Date }): Promise<void> {
  const { key, record, oldExpiresAt } = await withPrisma('keys', (prisma) =>
    rotateKey(prisma, id, { overlapMs: overlap, expiresAt: expires ?? null }),
  );
  print(key);
  note(`key ${record.id} for ${record.name}: ${record.scopes.join(', ')}; ${endOf(record)}`);
  note(`key ${id} is good until ${showDateTime(oldExpiresAt)}`);
  note('this is the only time the new key is shown');
}

function endOf({ expiresAt }: KeyRecord): string {
  return expiresAt === null ? 'it never expires' : `it expires ${showDateTime(expiresAt)}`;
}

function scopeOption(): Option {
  return new Option('--scope <scope>', `what it may do: ${SCOPES.join(', ')}; give it several times for several`)
    .default(DEFAULT_SCOPES, DEFAULT_SCOPES.join(' and '))
    .argParser((text, earlier: readonly Scope[]) => {
      const scope = SCOPES.find((each) => each === text);
      if (!scope) throw new InvalidArgumentError(`It must be one of ${SCOPES.join(', ')}.`);
      return earlier === DEFAULT_SCOPES ? [scope] : [...new Set([...earlier, scope])];
    });
}

function readName(text: string): string {
  if (!/^[^\p{Cc}]{1,100}$/u.test(text)) throw new InvalidArgumentError('It must have 1 to 100 printable characters.');
  return text;
}
