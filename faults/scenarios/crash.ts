import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS } from '../faults.ts';
import { recovery } from '../measures.ts';
import { atLeast, atMost, Stage, type Figure, type World } from '../stage.ts';
import { interrupt } from './outage.ts';

/** kill -9 of one service or the other under load, and its restart. */
export async function killService(world: World): Promise<Figure[]> {
  const { random, size } = world;
  await using stage = await Stage.open(world);
  const load = stage.load();
  load.start();
  for (let round = 0; round < size.kills; round++) {
    await sleep(random.between(50, 400));
    const service = random.pick(stage.services);
    await service.kill();
    service.start();
    await service.becomesReady();
  }
  await sleep(200);
  await load.stop();
  const { figures } = await stage.verdict();
  return [
    ...figures,
    atMost('acknowledged updates lost', stage.evidence.lostUpdates, 0),
    atLeast('requests cut off by a kill', stage.evidence.lostConnections, 1),
  ];
}

/** kill -9 of all of PostgreSQL under load, and its restart. */
export function killPostgres(world: World): Promise<Figure[]> {
  const { random, size, postgres } = world;
  const fault = async () => {
    await postgres.crash();
    await sleep(random.between(0, 300));
    await postgres.restart();
  };
  return interrupt(world, fault, { rounds: size.kills });
}

/** What PostgreSQL may take to recover from its log. */
const RECOVERED_WITHIN_MS = 20_000;

/** One of these is killed at a time, as the kernel does when memory runs out; PostgreSQL then ends all of its sessions. */
const VICTIMS = ['inventory updates', 'inventory key check', 'inventory pool', 'walwriter', 'checkpointer'];

/** kill -9 of a single process of PostgreSQL under load, which then recovers by itself. */
export function killBackend(world: World): Promise<Figure[]> {
  return interrupt(world, async (stage) => {
    const outageMs = await killOne(stage, VICTIMS);
    world.note(`PostgreSQL was away for ${outageMs.toFixed(0)} ms`);
  });
}

/** @returns how long PostgreSQL let nobody in, in milliseconds */
async function killOne({ database, world }: Stage, victims: readonly string[]): Promise<number> {
  const bystander = await database.session();
  const ended = new Promise((resolve) => bystander.once('end', resolve));
  const present = await database.sql<{ pid: number; name: string }>(
    `SELECT pid, name FROM pg_stat_activity, unnest($1::text[]) AS name WHERE name IN (application_name, backend_type)`,
    [victims],
  );
  const { pid, name } = world.random.pick(present);
  process.kill(pid, 'SIGKILL');
  const killedAt = performance.now();
  await ended;
  world.note(`killed: ${name}`);
  while (performance.now() < killedAt + RECOVERED_WITHIN_MS) {
    const isBack = await world.postgres.database.sql('SELECT 1').then(
      () => true,
      () => false,
    );
    if (isBack) return performance.now() - killedAt;
    await sleep(10);
  }
  throw new Error(`PostgreSQL did not recover within ${RECOVERED_WITHIN_MS} ms`);
}

/**
 * A control: a trigger lets PostgreSQL acknowledge before the log is written out, and its writer of the log sleeps for
 * 10 s. The same kill must lose acknowledged updates, and the check must see it.
 */
export function lostUpdateControl(world: World): Promise<Figure[]> {
  return forget(world, FAULTS['kill PostgreSQL']);
}

/** The same control, where a single process is killed. */
export function killBackendControl(world: World): Promise<Figure[]> {
  return forget(world, (stage) => killOne(stage, ['inventory key check']));
}

async function forget(world: World, crash: (stage: Stage) => unknown): Promise<Figure[]> {
  await using stage = await Stage.open(world);
  stage.defer(() => stage.database.setSystem('RESET ALL'));
  await acknowledgeEarly(stage);
  const load = stage.load();
  load.start();
  await sleep(500);
  await crash(stage);
  await recovery(load, stage.services);
  await load.stop();
  await stage.verdict();
  return [atLeast('lost updates found', stage.evidence.lostUpdates, 1)];
}

/** Makes PostgreSQL acknowledge updates long before they are in its log. */
export async function acknowledgeEarly({ database }: Stage): Promise<void> {
  await database.sql(
    `CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NULL; END $$;
     CREATE TRIGGER forget AFTER INSERT ON stock_change EXECUTE FUNCTION forget()`,
  );
  await database.setSystem("SET wal_writer_delay = '10s'", "SET wal_writer_flush_after = '1GB'");
  await database.cutSessions();
}
