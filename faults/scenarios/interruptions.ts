import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS, silence, type Fault } from '../faults.ts';
import { atLeast, found, Stage, type Figure, type Scenarios, type StageOptions, type World } from '../stage.ts';

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

  /** A control: PostgreSQL acknowledges early. The same kill must lose acknowledged updates, and the check must see it. */
  'control-lost-update': async (world) => {
    await using stage = await Stage.open(world);
    stage.defer(() => stage.database.setSystem('RESET ALL'));
    await acknowledgeEarly(stage);
    stage.startLoad();
    await sleep(500);
    await FAULTS['kill PostgreSQL'](stage);
    await stage.recovery();
    return found(await stage.verdict(), 'acknowledged updates lost');
  },
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

/** Makes PostgreSQL acknowledge updates up to 10 s before they are in its log. */
async function acknowledgeEarly({ database }: Stage): Promise<void> {
  await database.sql(
    `CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NULL; END $$;
     CREATE TRIGGER forget AFTER INSERT ON stock_change EXECUTE FUNCTION forget()`,
  );
  await database.setSystem("SET wal_writer_delay = '10s'", "SET wal_writer_flush_after = '1GB'");
  await database.cutSessions();
}
