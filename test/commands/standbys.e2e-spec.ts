import { beforeAll, expect, it } from 'vitest';
import { startReplicated } from '../support/postgres-server.ts';
import { CSV_HEADER } from '../support/stock.ts';
import { IMPORT_CSV, inventory } from './inventory-command.ts';

let replicated: Awaited<ReturnType<typeof startReplicated>>;

beforeAll(async () => {
  replicated = await startReplicated();
  // The commands need the warning of an unconfirmed commit, and must set its level by themselves.
  await onPrimary(`ALTER DATABASE postgres SET client_min_messages = error`);
  await replicated.awaitStandby();
});

const onPrimary = (statement: string) => replicated.primary.sql(statement);

/** A commit whose wait is cancelled is in the database, but a failover may lose it. */
async function cancelWait(): Promise<void> {
  const held = () => onPrimary(`SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
  await expect.poll(held).toHaveLength(1);
  await onPrimary(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
}

it('every command fails whose commit the standby did not confirm', async () => {
  const run = (args: readonly string[], input?: string) => inventory(replicated.primary.url, args, input);
  const created = await run(['keys', 'create', '--name', 'till']);
  const id = /^key (\S+)/.exec(created.stderr)?.[1] ?? '';
  for (const quantity of [1, 2]) await run([...IMPORT_CSV, '--quiet'], `${CSV_HEADER}1,${quantity},available\n`); // for a history that can be pruned
  await replicated.loseStandby();
  const key = /^psk_\w+\n$/;
  for (const [args, stdout] of [
    [['keys', 'create', '--name', 'shop'], key],
    [['keys', 'rotate', id], key],
    [['keys', 'revoke', id], /^$/],
    [['history', 'prune', '--before', '0s'], /^$/],
    [[...IMPORT_CSV, '--quiet'], /^$/],
  ] as const) {
    const finished = run(args, `${CSV_HEADER}1,7,sold\n`);
    await cancelWait();
    const { code, stderr, ...shown } = await finished;
    expect({ args, code, ...shown }).toEqual({ args, code: 1, stdout: expect.stringMatching(stdout) as string });
    expect(stderr).toMatch(
      /(^|\n)error: committed here, but not confirmed by the synchronous standby: a failover may lose it\n$/,
    );
  }
  expect(await onPrimary('SELECT id FROM api_key WHERE revoked_at IS NOT NULL')).toEqual([{ id }]);
});

it('the standby gives no history cursor, because it has no locks of the writers', async () => {
  const stderr = 'error: the database takes no writes: it is a standby, or default_transaction_read_only is on\n';
  expect(await inventory(replicated.standby.url, ['history', 'cursor'])).toEqual({ code: 1, stdout: '', stderr });
});
