import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Database } from '../../test/support/database.ts';
import type { Target } from '../faults/exchange.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import { becomesReady, ComposeProject, docker } from './compose-project.ts';
import { startJudgedLoad } from './judged-load.ts';

const SEED = Number(process.env['SEED'] ?? 1);
/** Rounds of each kind. A round takes about a minute. */
const ROUNDS = Number(process.env['ROUNDS'] ?? 3);
const PATIENCE_MS = 120_000;
/** All containers run on one machine: this leaves some CPU to the node that comes back. */
const THINK_TIME_MS = 20;
const project = new ComposeProject('deploy/failover/docker-compose.yml');
let database: Database;
let targets: Target[];

beforeAll(async () => {
  await project.compose(['build']);
  await project.compose(['up', '--detach', 'primary']);
  await clusterIsWhole();
  await project.exec(await leader(), 'createdb', '--host=127.0.0.1', '--username=postgres', 'inventory');
  await project.compose(['run', '--rm', '-T', 'service1', 'inventory', 'migrate']);
  await project.compose(['up', '--detach']);
  const ports = await Promise.all(['service1', 'service2'].map((service) => project.port(service, 3000)));
  await Promise.all(ports.map((port) => becomesReady(`http://127.0.0.1:${port}/health/ready`)));
  targets = ports.map((port, index) => ({ name: `service${index + 1}`, port, killedAt: -Infinity }));
  database = new Database(`postgresql://postgres@127.0.0.1:${await project.port('primary', 5432)}/inventory`);
});
afterAll(() => project.remove());

type Member = Record<'name' | 'role' | 'state', string>;

/** The cluster as the first node that answers sees it. */
async function members(): Promise<Member[]> {
  const ask = ['curl', '--silent', '--fail', '--max-time', '2', 'http://127.0.0.1:8008/cluster'];
  for (const node of ['node1', 'node2']) {
    const output = await docker('exec', await containerOf(node), ...ask).catch(() => '');
    if (output) return (JSON.parse(output) as { members: Member[] }).members;
  }
  return [];
}

async function containerOf(service: string): Promise<string> {
  const [container = ''] = await project.containers(service);
  return container;
}

async function leader(): Promise<string> {
  const found = (await members()).find(({ role }) => role === 'leader');
  if (!found) throw new Error('the cluster has no leader');
  return found.name;
}

async function until(isTrue: () => boolean | Promise<boolean>, what: string): Promise<void> {
  await vi.waitFor(async () => expect(await isTrue(), what).toBe(true), { timeout: PATIENCE_MS, interval: 500 });
}

/** Waits for a primary and a synchronous standby. From then on, the loss of either node loses no data. */
function clusterIsWhole(): Promise<void> {
  return until(async () => {
    const up = (await members()).filter(({ state }) => ['running', 'streaming'].includes(state));
    return ['leader', 'sync_standby'].every((wanted) => up.some(({ role }) => role === wanted));
  }, 'a leader and a synchronous standby');
}

/** A way to lose the primary. */
interface Kind {
  readonly name: string;
  /** Takes the containers of the primary and of the standby. */
  readonly strike: (primary: string, standby: string) => Promise<unknown>;
  /** Repairs what Patroni does not repair by itself. */
  readonly repair?: (primary: string) => Promise<unknown>;
}

const startAgain = (primary: string) => docker('start', primary);

const kinds: readonly Kind[] = [
  {
    name: 'a planned switchover',
    strike: (primary) => docker('exec', primary, 'patronictl', '-c', '/etc/trial/patroni.yml', 'switchover', '--force'),
  },
  {
    name: 'it is cut off from etcd, but not from the service',
    strike: (primary) => routeFromEtcd('add', primary),
    repair: (primary) => routeFromEtcd('delete', primary),
  },
  {
    name: 'its Patroni hangs and its PostgreSQL goes on serving',
    strike: (primary) => docker('exec', primary, 'pkill', '-STOP', 'patroni'),
    repair: (primary) => docker('exec', primary, 'pkill', '-CONT', 'patroni'),
  },
  { name: 'its machine is lost', strike: (primary) => docker('kill', primary), repair: startAgain },
  {
    name: 'its machine is lost while the standby lags',
    // The standby is cut off, not frozen: the kernel of a frozen node still takes in what the primary sends.
    strike: async (primary, standby) => {
      const network = `${project.name}_default`;
      const name = await docker('inspect', '--format', '{{.Config.Hostname}}', standby);
      await docker('network', 'disconnect', network, standby);
      await sleep(1_500);
      await docker('kill', primary);
      await docker('network', 'connect', '--alias', name, network, standby);
    },
    repair: startAgain,
  },
  {
    name: 'it is frozen, and wakes up when the other is primary',
    strike: (primary) => docker('pause', primary),
    repair: (primary) => docker('unpause', primary),
  },
  {
    name: 'its PostgreSQL alone is killed',
    strike: (primary) => docker('exec', primary, 'sh', '-c', 'kill -9 $(head -n 1 /data/17/postmaster.pid)'),
  },
];

/** Drops everything that etcd sends to a container. Neither side gets an error. */
async function routeFromEtcd(change: 'add' | 'delete', container: string): Promise<void> {
  const itsAddress = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}';
  const address = await docker('inspect', '--format', itsAddress, container);
  await docker('exec', '--user', 'root', await containerOf('etcd'), 'ip', 'route', change, 'blackhole', address);
}

/** One round under load. When it ends, the other node is primary and the cluster is whole. */
async function loseThePrimary(kind: Kind, seed: number): Promise<void> {
  const random = new SeededRandom(seed);
  const run = await startJudgedLoad(database, targets, project.apiKey, THINK_TIME_MS, random);
  const { evidence, load, last, gapMs } = run;
  try {
    await sleep(random.between(2_000, 6_000));
    const lost = await leader();
    const primary = await containerOf(lost);
    await kind.strike(primary, await containerOf(lost === 'node1' ? 'node2' : 'node1'));
    const replaced = ({ name, role }: Member) => role === 'leader' && name !== lost;
    await until(async () => (await members()).some(replaced), 'another leader');
    const replacedAt = performance.now();
    await until(() => Math.min(last.update, last.list) > replacedAt, 'an update and a list');
    await sleep(random.between(1_000, 5_000));
    await kind.repair?.(primary);
    await clusterIsWhole();
    await sleep(3_000);
  } finally {
    await load.stop();
  }
  const madeUnknown = evidence.appliedUnknown(await run.stop());
  const gaps = `no update for ${gapMs.update.toFixed(0)} ms, no list for ${gapMs.list.toFixed(0)} ms`;
  console.log(`${gaps}, slowest answer ${evidence.slowestMs.toFixed(0)} ms, ${madeUnknown} unknown updates made`);
  console.log(evidence.summary);
  expect(evidence.examples).toEqual([]);
  expect(evidence.lostConnections).toBe(0);
}

describe('the primary is replaced, no acknowledged update is lost, and answers in between are 503, never wrong', () => {
  describe.each(kinds.map((kind) => [kind.name, kind] as const))('%s', (_name, kind) => {
    it.each(Array.from({ length: ROUNDS }, (_, round) => SEED + round))('with seed %i', (seed) =>
      loseThePrimary(kind, seed),
    );
  });
});
