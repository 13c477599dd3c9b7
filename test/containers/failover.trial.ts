import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Database } from '../support/database.ts';
import type { Exchange, Target } from '../../faults/exchange.ts';
import { becomesReady, ComposeProject, docker } from './compose-project.ts';
import { JudgedLoad } from './judged-load.ts';

const PATIENCE_MS = 120_000;
const project = new ComposeProject(['deploy/failover/docker-compose.yml']);
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

interface Member {
  readonly Member: string;
  readonly Role: string;
  readonly State: string;
}

/** As the surviving nodes see the cluster. */
async function members(): Promise<Member[]> {
  for (const node of ['node1', 'node2']) {
    const list = ['timeout', '5', 'patronictl', '-c', '/etc/trial/patroni.yml', 'list', '-f', 'json'];
    const output = await project.exec(node, ...list).catch(() => undefined);
    if (output) return JSON.parse(output) as Member[];
  }
  return [];
}

async function leader(): Promise<string> {
  const found = (await members()).find(({ Role }) => Role === 'Leader');
  if (!found) throw new Error('the cluster has no leader');
  return found.Member;
}

/** One primary, and the other node synchronous with it: from here on losing either loses nothing. */
async function clusterIsWhole(): Promise<void> {
  for (const deadline = performance.now() + PATIENCE_MS; ;) {
    const roles = (await members()).filter(({ State }) => ['running', 'streaming'].includes(State));
    if (roles.some(({ Role }) => Role === 'Leader') && roles.some(({ Role }) => Role === 'Sync Standby')) return;
    if (performance.now() > deadline) throw new Error(`the cluster is not whole: ${JSON.stringify(await members())}`);
    await sleep(500);
  }
}

interface Fault {
  readonly name: string;
  /** Both are given the containers of the primary and of the standby. */
  readonly strike: (primary: string, standby: string) => Promise<unknown>;
  readonly mend: (primary: string) => Promise<unknown>;
}

const faults: Fault[] = [
  {
    name: 'its machine is lost',
    strike: (primary) => docker('kill', primary),
    mend: (primary) => docker('start', primary),
  },
  {
    name: 'its machine is lost while the standby lags',
    // Cut off, not frozen: a frozen one's kernel would still take in what the primary sends.
    strike: async (primary, standby) => {
      const network = `${project.name}_default`;
      const name = await docker('inspect', '--format', '{{.Config.Hostname}}', standby);
      await docker('network', 'disconnect', network, standby);
      await sleep(1_500);
      await docker('kill', primary);
      await docker('network', 'connect', '--alias', name, network, standby);
    },
    mend: (primary) => docker('start', primary),
  },
  {
    name: 'its machine is frozen and wakes up later',
    strike: (primary) => docker('pause', primary),
    mend: (primary) => docker('unpause', primary),
  },
  {
    name: 'its PostgreSQL alone is killed',
    strike: (primary) => docker('exec', primary, 'sh', '-c', 'kill -9 $(head -n 1 /data/17/postmaster.pid)'),
    mend: () => Promise.resolve(), // Patroni starts it again by itself
  },
];

describe('the primary is replaced, no acknowledged update is lost, and answers in between are 503, never wrong', () => {
  it.each(faults.map((fault) => [fault.name, fault] as const))(
    'when %s',
    async (name, { strike, mend }) => {
      const answered = new Answered();
      const run = await JudgedLoad.start(database, targets, project.apiKey, 5);
      const { evidence } = run;
      run.load.onExchange((exchange) => {
        answered.note(exchange);
      });
      await sleep(5_000);
      const lost = await leader();
      const [[primary = ''], [standby = '']] = await Promise.all([
        project.containers(lost),
        project.containers(lost === 'node1' ? 'node2' : 'node1'),
      ]);
      const struckAt = performance.now();
      await strike(primary, standby);
      const struckBy = performance.now();
      const back = await answered.firstAfter(struckBy + 500, PATIENCE_MS);
      await sleep(3_000);
      await mend(primary);
      await clusterIsWhole();
      await sleep(3_000);
      const state = await run.stop();
      console.log(
        [
          `${lost}, ${name}: ${evidence.requests} requests, ${evidence.summary}`,
          `no update acknowledged for ${((back.update - answered.lastUpdateBefore(back.update)) / 1000).toFixed(1)} s,`,
          `first update ${((back.update - struckAt) / 1000).toFixed(1)} s and first list ${((back.list - struckAt) / 1000).toFixed(1)} s after the blow`,
          `slowest answer ${evidence.slowestMs.toFixed(0)} ms; ${evidence.appliedUnknown(state)} updates of unknown outcome had been made`,
        ].join('\n'),
      );
      expect(evidence.examples).toEqual([]);
      expect(evidence.lostConnections).toBe(0);
      expect(await leader()).not.toBe(lost);
    },
    400_000,
  );
});

/** When requests succeeded, in monotonic milliseconds. */
class Answered {
  private readonly at = { update: [] as number[], list: [] as number[] };

  note({ operation, outcome, end }: Exchange): void {
    if (!(outcome instanceof Error) && outcome.status < 400) this.at[operation.kind].push(end);
  }

  lastUpdateBefore(moment: number): number {
    return this.at.update.findLast((at) => at < moment) ?? Number.NaN;
  }

  async firstAfter(moment: number, patienceMs: number): Promise<{ update: number; list: number }> {
    for (const deadline = performance.now() + patienceMs; performance.now() < deadline;) {
      await sleep(100);
      const [update, list] = [this.at.update, this.at.list].map((times) => times.find((at) => at > moment));
      if (update !== undefined && list !== undefined) return { update, list };
    }
    throw new Error('no update and list succeeded again');
  }
}
