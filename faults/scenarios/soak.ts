import { setTimeout as sleep } from 'node:timers/promises';
import { FAULTS } from '../faults.ts';
import { quantile, recovery } from '../measures.ts';
import { atMost, Stage, type Figure, type World } from '../stage.ts';

const WARM_UP_MS = 3_000;

/** Load for minutes, with a fault every now and then. */
export async function soak(world: World): Promise<Figure[]> {
  const { random, size } = world;
  await using stage = await Stage.open(world, { proxied: true });
  const [survivor] = stage.services;
  if (!survivor) throw new RangeError('a service is needed');
  const load = stage.load({ thinkTimeMs: 20 });
  load.start();
  await sleep(WARM_UP_MS);
  await load.stop();
  const descriptorsBefore = survivor.openDescriptors();
  load.start();
  const residentMb: number[] = [];
  const startedAt = performance.now();
  let slowest = 0;
  for (let at = size.soakFaultEveryMs; at < size.soakMs; at += size.soakFaultEveryMs) {
    await sleep(Math.max(0, startedAt + at - performance.now()));
    residentMb.push(survivor.residentMb());
    const [name, fault] = random.pick(Object.entries(FAULTS));
    world.note(`${(at / 1_000).toFixed(0)} s: ${name}, at ${survivor.residentMb().toFixed(0)} MB`);
    await fault(stage);
    slowest = Math.max(slowest, await recovery(load, stage.services));
  }
  await sleep(size.soakFaultEveryMs / 2);
  residentMb.push(survivor.residentMb());
  await load.stop();
  await sleep(500);
  const descriptorsAfter = survivor.openDescriptors();
  const { figures } = await stage.verdict();
  const early = residentMb.slice(Math.floor(residentMb.length / 4), Math.ceil(residentMb.length / 2));
  const late = residentMb.slice(Math.floor((residentMb.length * 3) / 4));
  return [
    ...figures,
    atMost('first success after a fault', slowest, 1_000, 'ms'),
    atMost('memory grown, second to last quarter', quantile(late, 0.5) - quantile(early, 0.5), 50, 'MB'),
    atMost('descriptors grown', descriptorsAfter - descriptorsBefore, 5),
  ];
}

/** Each fault once, in a random order and with little load: what every test run can afford. */
export async function faultsInARow(world: World): Promise<Figure[]> {
  await using stage = await Stage.open(world, { proxied: true });
  const load = stage.load({ workers: 16, thinkTimeMs: 5 });
  load.start();
  const left = Object.entries(FAULTS);
  while (left.length > 0) {
    await sleep(100);
    const [[name, fault] = []] = left.splice(world.random.between(0, left.length - 1), 1);
    await fault?.(stage);
    world.note(`${String(name)}: served again after ${(await recovery(load, stage.services)).toFixed(0)} ms`);
  }
  await load.stop();
  const { figures } = await stage.verdict();
  return [
    ...figures,
    atMost('acknowledged updates lost', stage.evidence.lostUpdates, 0),
    atMost('services that ended', stage.services.filter((service) => !service.isRunning).length, 0),
  ];
}
