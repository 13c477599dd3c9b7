import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionLost } from '../../test/support/http-client.ts';
import { Durations } from '../measures.ts';
import { atLeast, atMost, Stage, type Figure, type World } from '../stage.ts';

/** From then on no answer of an update that came before the lock is still on its way. */
const SETTLED_MS = 200;

/** Another session holds one pet's row while 64 workers want it; the other pets and the list must not notice. */
export async function lockedRow(world: World): Promise<Figure[]> {
  const { lockMs } = world.size;
  await using stage = await Stage.open(world);
  const [lockedPet = 0, ...otherPets] = stage.petIds;
  const onLocked = stage.load({ workers: 64, petIds: [lockedPet], updateShare: 1, conditionalShare: 0 });
  const onOthers = stage.load({ workers: 8, petIds: otherPets, conditionalShare: 0 });
  const others = new Durations(onOthers);
  let lockedSince = Infinity;
  let lockedUntil = Infinity;
  const locked = { refused: 0, unknown: 0, otherwise: 0, slowestMs: 0 };
  onLocked.onExchange(({ start, end, outcome }) => {
    if (end < lockedSince + SETTLED_MS || end > lockedUntil) return;
    if (outcome instanceof ConnectionLost || outcome.status !== 503) locked.otherwise++;
    else locked[outcome.text.includes('"service_unavailable"') ? 'refused' : 'unknown']++;
    locked.slowestMs = Math.max(locked.slowestMs, end - start);
  });
  onLocked.start();
  onOthers.start();
  await sleep(1_000);
  others.begin();
  await sleep(Math.min(lockMs, 5_000));
  const normal = { p99: others.quantile(0.99), unserved: others.unserved };
  const release = await stage.database.lockRow(lockedPet);
  lockedSince = performance.now();
  others.begin();
  await sleep(lockMs);
  const during = { p99: others.quantile(0.99), unserved: others.unserved, count: others.count };
  lockedUntil = performance.now();
  await release();
  await sleep(500);
  await Promise.all([onLocked.stop(), onOthers.stop()]);
  const { figures } = await stage.verdict();
  world.note(`others: ${during.count} served, p99 ${during.p99.toFixed(1)} ms, normally ${normal.p99.toFixed(1)} ms`);
  world.note(`updates of the locked pet: ${locked.refused} refused, ${locked.unknown} of unknown outcome`);
  return [
    ...figures,
    atMost('other requests not served', during.unserved + normal.unserved, 0),
    atMost('p99 of the others against normal', during.p99 / normal.p99, 2, '×'),
    atLeast('updates of the locked pet refused', locked.refused, 1),
    atMost('updates of the locked pet not answered 503', locked.otherwise, 0),
    atMost('slowest refusal', locked.slowestMs, 3_000, 'ms'),
  ];
}
