import { beforeAll, describe, expect, it } from 'vitest';
import { startReplicated } from '../support/postgres-server.ts';
import { CSV_HEADER, exportedCsv } from '../support/stock.ts';
import { EXPORT_FAILED, failed, IMPORT_CSV, inventory } from './inventory-command.ts';

let replicated: Awaited<ReturnType<typeof startReplicated>>;

beforeAll(async () => {
  replicated = await startReplicated();
  // The commands need the warning of an unconfirmed commit, and must set its level by themselves.
  await onPrimary(`ALTER DATABASE postgres SET client_min_messages = error`);
  await replicated.awaitStandby();
  await onPrimary(`INSERT INTO inventory_item VALUES (1, 1, 'sold')`);
});

const onPrimary = (statement: string) => replicated.primary.sql(statement);

describe('on a standby', () => {
  const READ_ONLY = 'the database takes no writes: it is a standby, or default_transaction_read_only is on';
  const run = (...args: string[]) => inventory(replicated.standby.url, args);

  it('check tries nothing', async () => {
    await expect.poll(() => replicated.standby.sql('SELECT FROM stock_change')).toHaveLength(1);
    const { code, stdout } = await run('check');
    expect([code, stdout.replaceAll(/\s+/g, ' ')]).toEqual([
      1,
      expect.stringContaining('fault primary this server is a standby'),
    ]);
    expect(stdout).toContain('nothing was tried: this server is a standby');
  });

  it('there is no cursor of the history and no stock at a moment, and the end mark is bare: locks do not show the writers', async () => {
    expect(await run('history', 'cursor')).toEqual(failed(READ_ONLY));
    for (const moment of ['1', '0s'])
      expect(await run('export', '--at', moment)).toEqual(failed(READ_ONLY, EXPORT_FAILED));
    expect(await run('export', '--end-mark')).toEqual({
      code: 0,
      stdout: `${exportedCsv('1,1,sold\n')}# end\n`,
      stderr: `the end mark does not tell when the export was made: ${READ_ONLY}\n`,
    });
  });
});

/** A commit whose wait is cancelled is in the database, but a failover may lose it. */
async function cancelWait(): Promise<void> {
  const held = () => onPrimary(`SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
  await expect.poll(held).toHaveLength(1);
  await onPrimary(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
}

it('a command fails whose commit the standby did not confirm, by Prisma or by a connection of its own', async () => {
  await replicated.loseStandby();
  for (const [args, stdout] of [
    [['keys', 'create', '--name', 'shop'], /^psk_\w+\n$/],
    [[...IMPORT_CSV, '--quiet'], /^$/],
  ] as const) {
    const finished = inventory(replicated.primary.url, args, `${CSV_HEADER}1,7,sold\n`);
    await cancelWait();
    const { code, stderr, ...shown } = await finished;
    expect({ args, code, ...shown }).toEqual({ args, code: 1, stdout: expect.stringMatching(stdout) as string });
    expect(stderr).toMatch(
      /(^|\n)error: committed here, but not confirmed by the synchronous standby: a failover may lose it\n$/,
    );
  }
});
