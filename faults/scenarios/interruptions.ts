import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS, silence, type Fault } from '../faults.ts';
import { atLeast, found, Stage, type Figure, type Scenarios, type StageOptions, type World } from '../stage.ts';

const RECOVERED_WITHIN_MS = 20_000;

/** One of these is killed at a time, as the kernel does when memory runs out; PostgreSQL then ends all of its sessions. */
const VICTIMS = ['inventory updates', 'inventory key check', 'inventory pool', 'walwriter', 'checkpointer'];

/** Faults that are over at once, again and again under load. */
export const INTERRUPTIONS: Scenarios = {
  'kill-service': (world) =>
    interrupt(world, FAULTS['kill a service'], {}, ({ evidence }) =>
      atLeast('requests cut off by a kill', evidence.lostConnections, 1),
    ),
  'kill-postgres': (world) => interrupt(world, FAULTS['kill PostgreSQL']),
  'restart-postgres': (world) => interrupt(world, FAULTS['restart PostgreSQL']),
  'terminate-sessions': (world) => interrupt(world, FAULTS['terminate sessions']),
  'cut-connections': (world) => interrupt(world, FAULTS['cut connections'], { proxied: true }),
  'silent-connections': (world) =>
    interrupt(world, (stage) => silence(stage, world.random.between(1_000, 4_000)), { proxied: true }),

  /** Updates commit, and the connection dies before their answer arrives. */
  'cut-before-answer': (world) =>
    interrupt(world, FAULTS['cut before the answer'], { proxied: true }, ({ appliedUnknown }) =>
      atLeast('unknown outcomes that took place', appliedUnknown, 1),
    ),

  /** kill -9 of a single process of PostgreSQL, which then recovers by itself. */
  'kill-backend': (world) => interrupt(world, (stage) => killOne(stage, VICTIMS)),

  /** A control: PostgreSQL acknowledges early. The same kill must lose acknowledged updates, and the check must see it. */
  'control-lost-update': (world) => forget(world, FAULTS['kill PostgreSQL']),
  'control-kill-backend': (world) => forget(world, (stage) => killOne(stage, ['inventory key check'])),
};

/** @param effect what shows that the fault was one */
async function interrupt(
  world: World,
  fault: Fault,
  options: StageOptions = {},
  effect?: (stage: Stage) => Figure,
): Promise<Figure[]> {
  await using stage = await Stage.open(world, options);
  stage.startLoad();
  for (let round = 0; round < world.size.rounds; round++) {
    await sleep(world.random.between(200, 500));
    await fault(stage);
    await stage.recovery();
  }
  const figures = await stage.verdict();
  return effect ? [...figures, effect(stage)] : figures;
}

async function forget(world: World, crash: Fault): Promise<Figure[]> {
  await using stage = await Stage.open(world);
  stage.defer(() => stage.database.setSystem('RESET ALL'));
  await acknowledgeEarly(stage);
  stage.startLoad();
  await sleep(500);
  await crash(stage);
  await stage.recovery();
  return found(await stage.verdict(), 'acknowledged updates lost');
}

/** Makes PostgreSQL acknowledge updates up to 10 s before they are in its log. */
export async function acknowledgeEarly({ database }: Stage): Promise<void> {
  await database.sql(
    `CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NULL; END $$;
     CREATE TRIGGER forget AFTER INSERT ON stock_change EXECUTE FUNCTION forget()`,
  );
  await database.setSystem("SET wal_writer_delay = '10s'", "SET wal_writer_flush_after = '1GB'");
  await database.cutSessions();
}

/** Kills one of these processes, and waits until PostgreSQL lets clients in again. */
async function killOne({ database, world }: Stage, victims: readonly string[]): Promise<void> {
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

  const isBack = () =>
    database.sql('SELECT 1').then(
      () => true,
      () => false,
    );
  while (!(await isBack())) {
    if (performance.now() > killedAt + RECOVERED_WITHIN_MS) throw new Error('PostgreSQL did not recover');
    await sleep(10);
  }
  world.note(`${name} killed, PostgreSQL was away for ${(performance.now() - killedAt).toFixed(0)} ms`);
}
