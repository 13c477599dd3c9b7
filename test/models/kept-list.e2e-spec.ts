import type { Client } from 'pg';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { KeyCheck } from '../../src/keys/key-check.ts';
import { pruneBefore } from '../../src/history/history-pruning.ts';
import type { Snapshot } from '../../src/keys/checked-key.ts';
import type { Database } from '../support/database.ts';
import { type FaultyPostgres, startFaultyPostgres, startReplicated } from '../support/postgres-server.ts';
import { startService } from '../support/service.ts';
import { bodyOf } from '../support/stock-lists.ts';
import { MISTAKES } from './kept-list.ts';

const DAY_MS = 86_400_000;
const NOBODYS_KEY = '00'.repeat(32);

/** Where an order is played. */
interface Stage {
  /** For the service. */
  readonly url: string;
  /** For the transactions. */
  readonly database: Database;
  readonly faults?: Readonly<Record<string, () => Promise<unknown>>>;
  /** Waits until the service's server has what the transactions did. */
  readonly settle?: () => Promise<unknown>;
  readonly key?: string;
}

let postgres: FaultyPostgres;

/** Nobody but the order uses transaction ids or flushes the log. */
const QUIET = [`SET wal_writer_delay = '10s'`, 'SET autovacuum = off'];
const PETS = `INSERT INTO inventory_item VALUES (1, 0, 'available'), (2, 0, 'available')`;

beforeAll(async () => {
  postgres = await startFaultyPostgres();
  await postgres.database.setSystem(...QUIET);
  await postgres.database.sql('ALTER TABLE server_life_token SET LOGGED'); // so it survives a crash
});

async function onOneServer(): Promise<Stage> {
  const { url, database } = postgres;
  await database.sql(`DELETE FROM inventory_item; ${PETS}`);
  return { url, database, faults: { 'crash, token kept': () => postgres.crash().then(() => postgres.restart()) } };
}

async function onPrimary(): Promise<Stage> {
  const { primary, standby } = await startReplicated();
  await primary.setSystem(...QUIET);
  await primary.sql(PETS);
  const address = new TcpProxy(primary.url);
  const promote = async () => {
    address.moveTo(standby.url);
    await standby.sql('SELECT pg_promote()');
  };
  return { url: await address.listen(), database: primary, faults: { pg_promote: promote } };
}

async function onStandby(): Promise<Stage> {
  const { primary, standby } = await startReplicated();
  await primary.setSystem(...QUIET);
  await primary.sql(PETS);
  const { key } = await startService({ databaseUrl: primary.url });
  const settle = async () => {
    await primary.sql('CHECKPOINT');
    const [{ flushed } = {}] = await primary.sql('SELECT pg_current_wal_flush_lsn() AS flushed');
    const replayed = () => standby.sql('SELECT WHERE pg_last_wal_replay_lsn() >= $1', [flushed]);
    await expect.poll(replayed, { interval: 10 }).toHaveLength(1);
  };
  await settle();
  return { url: standby.url, database: primary, settle, key };
}

const OTHER_STAGES: Readonly<Record<string, () => Promise<Stage>>> = {
  'the life has no token': onPrimary,
  'a standby has a life': onStandby,
};

const NOT_PLAYED = 'the order did not lead to what it leads to in the model';
/** Only such a failure says nothing about the service: a busy machine may flush the log before a crash. */
const retry = { count: 2, condition: new RegExp(NOT_PLAYED) };

describe('the service gives the list of the moment in the order that is wrong when', { retry }, () => {
  it.each(Object.entries(MISTAKES))('%s', async (mistake, { order, list: wrong }) => {
    const { url, database, key, faults, settle } = await (OTHER_STAGES[mistake] ?? onOneServer)();
    const service = await startService({ databaseUrl: url, ...(key && { key }) });
    const keys = service.app.get(KeyCheck);
    if (!settle) await database.sql('SELECT present_server_life()');
    await database.sql('CHECKPOINT');

    const writers = new Map<string, Client>();
    const snapshots: Snapshot[] = [];
    let given = '';
    const deadline = () => performance.now() + 20_000;
    const write = async (name: string, pet: string, before: string, after = '') => {
      const update = `UPDATE inventory_item SET quantity = ${name.slice(1)} WHERE pet_id = ${pet}`;
      writers.set(name, await database.session('SET LOCAL synchronous_commit = off', before, update, after));
    };
    const end = (name: string, how: string) => writers.get(name)?.query(how);
    const list = async () => {
      const [snapshot] = snapshots.slice(-1);
      if (!snapshot) throw new Error('there was no key check');
      const { plain } = await service.inventory.list({ snapshot, deadline: deadline() });
      given = (JSON.parse(bodyOf(plain).toString()) as { quantity: number }[]).map(({ quantity }) => quantity).join();
    };
    const acts: Readonly<Record<string, (who: string, pet: string) => unknown>> = {
      record_stock_change: (name, pet) => write(name, pet, ''),
      mark_unrecorded_change: (name, pet) => write(name, pet, 'SET LOCAL session_replication_role = replica'),
      'DISABLE TRIGGER': (name, pet) =>
        write(
          name,
          pet,
          'ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_history',
          'ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_history',
        ),
      COMMIT: (name) => end(name, 'COMMIT'),
      '#checkAll': async () => snapshots.push((await keys.check(NOBODYS_KEY, deadline())).snapshot),
      '#read': list,
      listAt: list,
      flush: () => database.sql('CHECKPOINT'),
      pruneBefore: async () => pruneBefore(await database.session(), new Date(Date.now() + DAY_MS)),
      'a day passes': async () => {
        await database.sql('DELETE FROM unrecorded_change');
        const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + DAY_MS);
        onTestFinished(() => clock.mockRestore());
      },
      ...faults,
    };
    for (const step of order) {
      const [, who = '', act = '', pet = ''] = /^(?:(.+): )?(.+?)(?: pet (\d))?$/.exec(step) ?? [];
      if (!acts[act]) throw new Error(`nobody can play ${act}`);
      await acts[act](who, pet);
      await settle?.();
    }

    const [{ stock } = {}] = await service.database.sql(
      `SELECT string_agg(quantity::text, ',' ORDER BY pet_id) AS stock FROM inventory_item`,
    );
    expect(given).toBe(stock);
    expect(stock, NOT_PLAYED).not.toBe(wrong);
    if (order.at(-1) !== 'process 1: listAt') return;
    expect(snapshots.at(-1)?.transactions, NOT_PLAYED).toBe(snapshots.at(-2)?.transactions);
  });
});
