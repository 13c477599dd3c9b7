import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Database, createDatabaseOn } from '../support/database.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../support/postgres-server.ts';
import type { TestService } from '../support/service.ts';
import { atTestEnd } from '../support/test-end.ts';
import { eachService, eachServiceBothWays } from './services.ts';

const PETS = Array.from({ length: 33 }, (_, at) => at + 1);
const UPDATED = PETS.slice(0, 8);

/** PostgreSQL's own default. A plan that costs more is compiled, where PostgreSQL has JIT. */
const JIT_ABOVE_COST = 100_000;

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Total Cost': number;
  readonly Plans?: readonly PlanNode[];
}

/** As auto_explain logs it: of a statement, or of one inside a function. */
interface LoggedPlan {
  readonly 'Query Text': string;
  readonly Plan: PlanNode;
  /** What the session has otherwise than PostgreSQL's defaults. */
  readonly Settings?: { readonly enable_seqscan?: string; readonly jit?: string };
}

const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];
const tablesOf = ({ Plan }: LoggedPlan) => nodesOf(Plan).flatMap((node) => node['Relation Name'] ?? []);

/** What deploy/scale/pooled-role.sql sets on the role of the service. */
function settingsOfPooledRole(): [name: string, value: string][] {
  const sql = readFileSync('deploy/scale/pooled-role.sql', 'utf8');
  return [...sql.matchAll(/^ALTER ROLE inventory_pooled SET (\w+) = '?(\w+)/gm)].map(([, name = '', value = '']) => [
    name,
    value,
  ]);
}

describe('the plans of requests', () => {
  let postgres: FaultyPostgres;

  beforeAll(async () => {
    postgres = await startFaultyPostgres();
    const { database } = postgres;
    await database.setSystem('SET session_preload_libraries = auto_explain', `SET log_line_prefix = '%a: '`);
    const options = ['min_duration = 0', 'nested_statements = on', 'settings = on', 'format = json'];
    await database.setSystem(...options.map((option) => `SET auto_explain.log_${option}`));
  });
  beforeEach(async () => {
    const { database } = postgres;
    await database.sql('ALTER DATABASE postgres RESET ALL');
    await database.stock(...PETS.map((petId) => [petId, 5] as const));
  });

  const logText = () => readFileSync(join(postgres.dataFolder, '../log'), 'utf8');

  /** Of the services, since the log had this length. Readiness reads the migrations once, without an index. */
  function plansSince(length: number): LoggedPlan[] {
    const texts = logText()
      .slice(length)
      .matchAll(/^inventory .* plan:\n((?:\t.*\n)+)/gm);
    const plans = [...texts].map(([, json = '']) => JSON.parse(json) as LoggedPlan);
    return plans.filter((plan) => !tablesOf(plan).includes('_prisma_migrations'));
  }

  async function endSessions(database: Database): Promise<void> {
    await database.cutSessions();
    await expect.poll(() => database.sessions()).toEqual([]); // their statistics count now
  }

  async function exercise({ key, list, update }: TestService): Promise<void> {
    expect((await list()).status).toBe(200);
    for (let quantity = 1; quantity <= 3; quantity++) {
      const statuses = await Promise.all([
        ...UPDATED.map((petId) => update(petId, quantity)),
        update(1, 1, [['Authorization', 'Bearer unknown']]),
        update(99, quantity),
      ]);
      expect([...new Set(statuses.map(({ status }) => status))].sort()).toEqual([200, 401, 404]);
      const repeat = () =>
        UPDATED.map((petId) =>
          update(petId, quantity + 100, [
            ['If-Match', `"available-${quantity}", "available-${quantity + 1}"`],
            ['Idempotency-Key', `${key.slice(0, 20)}-${petId}-${quantity}`],
          ]),
        );
      for (const { status } of [...(await Promise.all(repeat())), ...(await Promise.all(repeat()))])
        expect(status).toBe(200);
      expect((await update(1, quantity)).status).toBe(200);
      expect((await list()).status).toBe(200);
    }
  }

  eachServiceBothWays(({ isPooled, start }) => {
    const cases: [name: string, settings: [name: string, value: string][]][] = isPooled
      ? [
          [', with the settings of pooled-role.sql', settingsOfPooledRole()],
          [' where a session has its settings', []],
        ]
      : [['', []]];

    it.each(cases)('use indexes, and are never compiled%s', async (_, settings) => {
      const { database } = postgres;
      for (const [name, value] of settings) await database.set(name, value);
      await endSessions(database);
      await database.sql('SELECT pg_stat_reset()');
      const { length } = logText();
      const service = await start({ databaseUrl: postgres.url });
      await exercise(service);
      await service.stop();
      await endSessions(database);

      const plans = plansSince(length);
      const tables = ['api_key', 'inventory_item', 'pg_authid', 'server_life_token', 'stock_change'];
      expect([...new Set(plans.flatMap(tablesOf))]).toEqual(expect.arrayContaining(tables));
      const faults = plans.filter(({ Plan, Settings: { enable_seqscan, jit } = {} }) => {
        const scans = nodesOf(Plan).some((node) => node['Node Type'] === 'Seq Scan');
        return Plan['Total Cost'] > JIT_ABOVE_COST || jit !== enable_seqscan || (scans && enable_seqscan === 'off');
      });
      expect(faults).toEqual([]);
      // A pooler may choose sessions that got no settings. PostgreSQL scans a small table there.
      if (isPooled && settings.length === 0) return;
      const scanned = await database.sql('SELECT relname AS name FROM pg_stat_user_tables WHERE seq_scan > 0');
      expect(scanned.filter(({ name }) => name !== '_prisma_migrations')).toEqual([]);
    });
  });
});

describe('on a PostgreSQL with JIT', () => {
  let server: FaultyPostgres;

  beforeAll(async () => {
    server = await startFaultyPostgres();
  });

  /** Of a database's sessions, in clock ticks of 10 ms. */
  async function cpuTicks(database: Database): Promise<number> {
    const rows = await database.sql<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'inventory %'`,
    );
    const ticks = rows.map(({ pid }) => {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' '); // the second is the name, (postgres)
      return Number(fields[13]) + Number(fields[14]); // utime and stime
    });
    return ticks.reduce((sum, each) => sum + each, 0);
  }

  eachService(({ start }) => {
    async function startSide(jit: 'on' | 'off') {
      const database = await createDatabaseOn(server.url);
      await atTestEnd(() => database.drop());
      await database.set('jit', jit);
      await database.stock(...PETS.map((petId) => [petId, 5] as const));
      const { update, list } = await start({ databaseUrl: database.url });
      let quantity = 0;
      const run = async (pairs: number) => {
        for (let pair = 0; pair < pairs; pair++) {
          expect((await update(1, ++quantity)).status).toBe(200);
          expect((await list()).status).toBe(200);
        }
      };
      await run(10); // until each session has its plans
      const before = await cpuTicks(database);
      return { run, ticks: async () => (await cpuTicks(database)) - before };
    }

    it('an update and its list cost PostgreSQL at most 1.5 times the CPU time that they cost without JIT', async ({
      skip,
    }) => {
      const [first] = await server.database.sql<{ jit: boolean }>('SELECT pg_jit_available() AS jit');
      if (!first?.jit) {
        console.log('This PostgreSQL has no JIT: the trial of its CPU time is left out.');
        skip();
      }
      const [withJit, without] = [await startSide('on'), await startSide('off')];
      let [some, others] = [0, 0];
      while (some + others < 30) {
        await Promise.all([withJit.run(20), without.run(20)]);
        [some, others] = [await withJit.ticks(), await without.ticks()];
      }
      console.log(`CPU time of PostgreSQL with JIT: ${some * 10} ms; without: ${others * 10} ms.`);
      expect(some / others).toBeLessThan(1.5);
    }, 180_000); // hundreds of requests, on a busy machine
  });
});
