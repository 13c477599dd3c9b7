import { setTimeout as sleep } from 'node:timers/promises';
import { recovery } from '../measures.ts';
import { atLeast, atMost, Stage, type Figure, type World } from '../stage.ts';

/** kill -9 of one service or the other under load, and its restart. */
export async function killService(world: World): Promise<Figure[]> {
  const { random, size } = world;
  const stage = await Stage.open(world);
  try {
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
  } finally {
    await stage.close();
  }
}

/** kill -9 of all of PostgreSQL under load, and its restart. */
export async function killPostgres(world: World): Promise<Figure[]> {
  const { random, size, postgres } = world;
  const stage = await Stage.open(world);
  try {
    const load = stage.load();
    load.start();
    let slowest = 0;
    for (let round = 0; round < size.kills; round++) {
      await sleep(random.between(100, 500));
      await postgres.crash();
      await sleep(random.between(0, 300));
      await postgres.restart();
      slowest = Math.max(slowest, await recovery(load, stage.services));
    }
    await load.stop();
    const { figures } = await stage.verdict();
    return [
      ...figures,
      atMost('acknowledged updates lost', stage.evidence.lostUpdates, 0),
      atMost('first success after its return', slowest, 1_000, 'ms'),
      atMost('services that ended', stage.services.filter((service) => !service.isRunning).length, 0),
    ];
  } finally {
    await stage.close();
  }
}

/**
 * A control: a trigger lets PostgreSQL acknowledge before the log is written out, and its writer of the log sleeps for
 * 10 s. The same kill must lose acknowledged updates, and the check must see it.
 */
export async function lostUpdateControl(world: World): Promise<Figure[]> {
  const { postgres } = world;
  const stage = await Stage.open(world);
  const { database } = stage;
  try {
    await database.sql(
      `CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NULL; END $$;
       CREATE TRIGGER forget AFTER INSERT ON stock_change EXECUTE FUNCTION forget()`,
    );
    await database.setSystem("SET wal_writer_delay = '10s'", "SET wal_writer_flush_after = '1GB'");
    await database.cutSessions();
    const load = stage.load();
    load.start();
    await sleep(500);
    await postgres.crash();
    await postgres.restart();
    await recovery(load, stage.services);
    await load.stop();
    await stage.verdict();
    return [atLeast('lost updates found', stage.evidence.lostUpdates, 1)];
  } finally {
    await database.setSystem('RESET ALL');
    await stage.close();
  }
}
