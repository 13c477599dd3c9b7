import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS, type Fault } from '../faults.ts';
import { SeededRandom } from '../seeded-random.ts';
import { atLeast, atMost, Stage, type Figure, type World } from '../stage.ts';

type FaultName = keyof typeof FAULTS;
const ALL = Object.keys(FAULTS) as FaultName[];
const FAULT_EVERY_MS = 2_000;
const CONTROL_MS = 4_000;
const HOPELESS_AFTER_MS = 30 * 60_000;

/** Commits of which no client hears: what the keys are for. */
const CUT: FaultName = 'cut before the answer';

/** Of all chunks between a service and PostgreSQL that are damaged where they speak TLS. */
const DAMAGED_SHARE = 0.005;

/** Updates with a key, each repeated through all faults until it is answered: every one takes place exactly once. */
export async function repeatedUpdates(world: World): Promise<Figure[]> {
  await using stage = await Stage.open(world, { proxied: true });
  return await onceEach(stage, ALL);
}

/** The same where the services and PostgreSQL speak TLS, whose records are damaged all the while. */
export async function repeatedUpdatesOverTls(world: World): Promise<Figure[]> {
  await using stage = await Stage.open(world, { proxied: true, tls: true });
  const random = new SeededRandom(world.random.between(0, 2 ** 31));
  for (const proxy of stage.proxies) proxy.damageChunks(DAMAGED_SHARE, random);
  return await onceEach(
    stage,
    ALL.filter((name) => name !== CUT), // a proxy cannot see the end of a commit in TLS
  );
}

async function onceEach(stage: Stage, faultNames: readonly FaultName[]): Promise<Figure[]> {
  const { world } = stage;
  const wanted = world.size.repeatedUpdates;
  const enough = (replays: number, faults: number) =>
    stage.evidence.done >= wanted && (replays > 0 || faults > 2 * faultNames.length);
  const { replays, faults } = await repeatUntil(stage, enough, faultNames);
  const { figures, state } = await stage.verdict();
  const times = new Map<number, number>();
  for (const { after } of [...state.changes.values()].flat()) times.set(after, (times.get(after) ?? 0) + 1);
  const damaged = stage.proxies.reduce((sum, proxy) => sum + proxy.damaged, 0);
  world.note(`${faults} faults${damaged > 0 ? `, ${damaged} chunks damaged` : ''}`);
  return [
    ...figures,
    atLeast('updates acknowledged', stage.evidence.done, wanted),
    atLeast('of them in the history exactly once', [...times.values()].filter((count) => count === 1).length, wanted),
    atMost('more than once', [...times.values()].filter((count) => count > 1).length, 0),
    atMost('acknowledged but not in the history', stage.evidence.lostUpdates, 0),
    atMost('left unknown', stage.evidence.unknown, 0),
    atLeast('repetitions answered from the history', replays, 1),
  ];
}

/** A control: the database forgets every key, so that repetitions write again, and the check must see it. */
export async function forgottenKeysControl(world: World): Promise<Figure[]> {
  await using stage = await Stage.open(world, { proxied: true });
  await stage.database.sql(`
    CREATE FUNCTION forget_key() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.idempotency_key := NULL; RETURN NEW; END';
    CREATE TRIGGER forget_key BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION forget_key()`);
  const endAt = performance.now() + CONTROL_MS;
  await repeatUntil(stage, () => performance.now() > endAt, [CUT]);
  const { state } = await stage.verdict();
  const all = [...state.changes.values()].flat().map(({ after }) => after);
  return [
    atLeast('updates written twice', all.length - new Set(all).size, 1),
    atLeast('violations found', stage.evidence.violations, 1),
  ];
}

/** Sends updates with a fault every now and then, all of them in each round, and waits for the last answer. */
async function repeatUntil(
  stage: Stage,
  enough: (replays: number, faults: number) => boolean,
  names: readonly FaultName[],
): Promise<{ replays: number; faults: number }> {
  const load = stage.load({ repeats: true, updateShare: 0.95 });
  let replays = 0;
  load.onExchange(({ outcome }) => {
    if ('headers' in outcome && 'idempotent-replayed' in outcome.headers) replays++;
  });
  const hopelessAt = performance.now() + HOPELESS_AFTER_MS;
  let left: FaultName[] = [];
  let faults = 0;
  load.start();
  while (!enough(replays, faults) && performance.now() < hopelessAt) {
    await sleep(FAULT_EVERY_MS);
    const isNewRound = left.length === 0;
    if (isNewRound) left = [...names];
    const at = isNewRound ? Math.max(0, left.indexOf(CUT)) : stage.world.random.between(0, left.length - 1);
    const [name = CUT] = left.splice(at, 1);
    const fault: Fault = FAULTS[name];
    await fault(stage);
    faults++;
  }
  await load.stop();
  return { replays, faults };
}
