import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS, type Fault } from '../faults.ts';
import { atLeast, atMost, Stage, type Figure, type Scenarios } from '../stage.ts';

const FAULT_EVERY_MS = 2_000;
const HOPELESS_AFTER_MS = 30 * 60_000;

/** Of all chunks between a service and PostgreSQL that are damaged where they speak TLS. */
const DAMAGED_SHARE = 0.005;

/** Commits of which no client hears, what the keys are for, and then everything else. */
const { 'cut before the answer': CUT, ...OTHERS } = FAULTS;

/** Updates with a key, each repeated through all faults until it is answered: every one takes place exactly once. */
export const REPETITION: Scenarios = {
  'repeated-updates': async (world) => {
    await using stage = await Stage.open(world, { proxied: true });
    return await onceEach(stage, [CUT, ...Object.values(OTHERS)]);
  },

  /** The same where the services and PostgreSQL speak TLS, whose records are damaged all the while. */
  'repeated-updates-tls': async (world) => {
    await using stage = await Stage.open(world, { proxied: true, tls: true });
    for (const proxy of stage.proxies) proxy.damageChunks(DAMAGED_SHARE, world.random);
    // A proxy cannot see the end of a commit in TLS.
    const figures = await onceEach(stage, Object.values(OTHERS));
    return [...figures, atLeast('chunks damaged', stage.damagedChunks, 1)];
  },

  /** A control: the database forgets every key, so that repetitions write again, and the check must see it. */
  'control-forgotten-keys': async (world) => {
    await using stage = await Stage.open(world, { proxied: true });
    await stage.database.sql(`
      CREATE FUNCTION forget_key() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.idempotency_key := NULL; RETURN NEW; END';
      CREATE TRIGGER forget_key BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION forget_key()`);
    await repeat(stage, [CUT], (_, faults) => faults >= 2);
    await stage.verdict();
    return [atLeast('updates found that were written twice', stage.evidence.broken('written twice'), 1)];
  },
};

async function onceEach(stage: Stage, faults: readonly Fault[]): Promise<Figure[]> {
  const { evidence, world } = stage;
  const wanted = world.size.updates;
  const enough = (replays: number, played: number) =>
    evidence.done >= wanted && (replays > 0 || played > 2 * faults.length);
  const replays = await repeat(stage, faults, enough);
  const figures = await stage.verdict();
  return [
    ...figures,
    atLeast('updates acknowledged', evidence.done, wanted),
    atMost('left unknown', evidence.unknown, 0),
    atLeast('repetitions answered from the history', replays, 1),
  ];
}

/** Sends updates with one fault after the other, and waits for the last answer. @returns how many were replayed */
async function repeat(
  stage: Stage,
  faults: readonly Fault[],
  enough: (replays: number, played: number) => boolean,
): Promise<number> {
  const load = stage.startLoad({ repeats: true, updateShare: 0.95 });
  let replays = 0;
  load.onExchange(({ outcome }) => {
    if ('headers' in outcome && 'idempotent-replayed' in outcome.headers) replays++;
  });
  const hopelessAt = performance.now() + HOPELESS_AFTER_MS;
  for (let played = 0; !enough(replays, played) && performance.now() < hopelessAt; played++) {
    await sleep(FAULT_EVERY_MS);
    await faults[played % faults.length]?.(stage);
  }
  await load.stop();
  stage.world.note(`${replays} updates were answered from the history`);
  return replays;
}
