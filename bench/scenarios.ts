import type { SideName } from './sides.ts';

export type Contender = SideName | 'pgbench';

export interface Target {
  /** Median of the per-round ratios of requests a second, the service's to the other's. */
  atLeast: number;
  against: Contender;
}

export interface Scenario {
  name: string;
  title: string;
  /** `anew`: every list follows an update, one at a time; `unchanged`: every list carries the ETag of the last. */
  kind: 'list' | 'unchanged' | 'anew' | 'update' | 'hot' | 'mixed';
  pets: number;
  connections: number;
  /** Sent beside the measured requests, at a steady rate. */
  updatesPerSecond: number;
  /** These updates go to another instance of the service on another server: what they cost the machine, whoever gets them. */
  elsewhere: boolean;
  /** In another database of the same server: nothing to do with the stock. */
  commitsPerSecond: number;
  /** In turn one that comes and one that goes, by SQL. */
  petsPerSecond: number;
  gzip: boolean;
  seconds: number;
  rounds: number;
  /** Measured in every round, as are those that a target names. */
  always: readonly Contender[];
  /** Measured in the first round only. */
  others: readonly Contender[];
  targets: readonly Target[];
  /** CPU time of the program and of PostgreSQL together, the service's to that of Fastify + pg. */
  cpuAtMost?: number;
  /** The slowest hundredth of the service to that of Fastify + pg. */
  p99AtMost?: number;
  /** Of a process's first scenario: what V8 has still to compile is the slowest hundredth's for some seconds. */
  longWarmUp: boolean;
  /** Of which scenario's lists a second the service's should be at least what share, round by round; a control has no goal. */
  share?: { of: string; atLeast?: number };
  /** Also in the quick run. */
  quick: boolean;
}

type Shape = Pick<Scenario, 'kind' | 'pets' | 'connections'>;

const peers: readonly SideName[] = ['express', 'nest', 'weaker'];

function scenario(name: string, title: string, rest: Partial<Scenario> & Shape): Scenario {
  return {
    name,
    title,
    updatesPerSecond: 0,
    elsewhere: false,
    commitsPerSecond: 0,
    petsPerSecond: 0,
    gzip: false,
    seconds: 2,
    rounds: 2,
    always: ['service', 'fastify'],
    others: [],
    targets: [],
    longWarmUp: false,
    quick: false,
    ...rest,
  };
}

/** Where the round trips to the database are most of the work, the peer that saves one takes part too. */
const withOneTrip: readonly SideName[] = ['oneTrip', ...peers];

/** Where a goal stands, the interval has to be narrow. */
const judged = { rounds: 4, seconds: 3 } as const;
const judgedWarm = { ...judged, longWarmUp: true } as const;
const judgedTail = { ...judgedWarm, p99AtMost: 1.2 } as const;
const judgedLong = { rounds: 4, seconds: 4 } as const;
const against = (contender: Contender, atLeast: number): Target => ({ against: contender, atLeast });

function over(connections: number): string {
  return connections === 1 ? '1 connection' : `${connections} connections`;
}

function lists(pets: number, connections: number, rest: Partial<Scenario> = {}): Scenario {
  const title = `list of ${pets.toLocaleString('en')} pets, ${over(connections)}`;
  return scenario(`list-${pets}-c${connections}`, title, { kind: 'list', pets, connections, ...rest });
}

function unchangedLists(pets: number): Scenario {
  const title = `unchanged list of ${pets.toLocaleString('en')} pets, 64 connections`;
  return scenario(`unchanged-${pets}`, title, { kind: 'unchanged', pets, connections: 64 });
}

function updates(connections: number, rest: Partial<Scenario>): Scenario {
  const shape: Shape = { kind: 'update', pets: 10_000, connections };
  return scenario(`update-c${connections}`, `update, ${over(connections)}`, { ...shape, ...judged, ...rest });
}

/** The service's same list as `base` with something written beside, which should leave at least such a share; a control has none. */
function beside(base: Scenario, name: string, what: string, atLeast: number | undefined, rest: Partial<Scenario>) {
  const share = { of: base.name, ...(atLeast === undefined ? {} : { atLeast }) };
  const title = `${base.title}, ${what}`;
  const alone = { always: ['service'], others: [], targets: [], quick: false } as const;
  return { ...base, ...alone, name: `${base.name}-${name}`, title, share, ...rest };
}

const list10000 = lists(10_000, 8, {
  ...judged,
  others: [...peers, 'keeping', 'bare'],
  targets: [against('fastify', 45), against('bare', 0.6)],
  quick: true,
});
const list100000 = lists(100_000, 8, {
  ...judgedLong,
  others: [...peers, 'keeping', 'bare'],
  targets: [against('fastify', 110)],
});
const gzip100000: Scenario = {
  ...lists(100_000, 8, { ...judgedLong, gzip: true, always: ['service'] }),
  name: 'list-100000-gzip',
  title: 'list of 100,000 pets in gzip, 8 connections',
};
const list1000000 = lists(1_000_000, 2, { rounds: 3, seconds: 6, always: ['service'], others: ['fastify'] });

/** In the order of the runs: scenarios of the same store stand together. */
export const scenarios: readonly Scenario[] = [
  lists(10, 1, { ...judgedTail, others: ['oneTrip'], targets: [against('fastify', 1.1)], cpuAtMost: 0.9 }),
  lists(10, 8, { ...judgedTail, others: withOneTrip, targets: [against('fastify', 1.9)], cpuAtMost: 0.4 }),
  lists(10, 64, { ...judgedWarm, others: withOneTrip, targets: [against('fastify', 3)], cpuAtMost: 0.3, quick: true }),
  unchangedLists(10),
  lists(1_000, 1),
  lists(1_000, 8, { others: peers }),
  lists(1_000, 64),
  scenario('mixed', 'nine lists of 1,000 pets to one update, 64 connections', {
    kind: 'mixed',
    pets: 1_000,
    connections: 64,
    others: peers,
  }),
  lists(10_000, 1),
  list10000,
  beside(list10000, 'updates', '100 updates/s beside', 0.75, {
    updatesPerSecond: 100,
    always: ['service', 'fastify'],
    others: [...peers, 'keeping'],
    targets: [against('fastify', 8)],
    quick: true,
  }),
  beside(list10000, 'elsewhere', '100 updates/s elsewhere', undefined, { updatesPerSecond: 100, elsewhere: true }),
  beside(list10000, 'commits', '100 unrelated commits/s beside', 0.85, { commitsPerSecond: 100 }),
  lists(10_000, 64),
  updates(1, { ...judgedTail, others: ['oneTrip'], targets: [against('fastify', 0.7)], cpuAtMost: 1.7 }),
  updates(8, { ...judgedTail, others: ['oneTrip'], targets: [against('fastify', 1.3)], cpuAtMost: 0.8 }),
  updates(64, {
    ...judgedWarm,
    others: [...withOneTrip, 'pgbench'],
    targets: [against('fastify', 3), against('pgbench', 1)],
    cpuAtMost: 0.33,
    quick: true,
  }),
  scenario('hot', 'update of one pet, 64 connections', {
    kind: 'hot',
    pets: 10_000,
    connections: 64,
    ...judged,
    targets: [against('fastify', 1.5)],
    quick: true,
  }),
  lists(100_000, 1),
  list100000,
  beside(list100000, 'updates', '100 updates/s beside', 0.85, {
    updatesPerSecond: 100,
    others: ['fastify', 'keeping'],
  }),
  beside(list100000, 'pets', '10 pets/s that come or go', 0.8, { petsPerSecond: 10 }),
  beside(list100000, 'elsewhere', '100 updates/s elsewhere', undefined, { updatesPerSecond: 100, elsewhere: true }),
  gzip100000,
  beside(gzip100000, 'updates', '100 updates/s beside', 0.5, { updatesPerSecond: 100 }),
  lists(100_000, 64, { seconds: 4, rounds: 1 }),
  unchangedLists(100_000),
  lists(1_000_000, 1, { rounds: 1, seconds: 5 }),
  list1000000,
  beside(list1000000, 'updates', '10 updates/s beside', 0.9, { updatesPerSecond: 10, others: ['fastify'] }),
  beside(list1000000, 'pets', 'a pet a second that comes or goes', 0.85, { petsPerSecond: 1 }),
  lists(1_000_000, 4, { rounds: 1, seconds: 8, others: ['bare'] }),
  scenario('list-1000000-c4-updates', 'list of 1,000,000 pets, 4 connections, 100 updates/s beside', {
    kind: 'list',
    pets: 1_000_000,
    connections: 4,
    updatesPerSecond: 100,
    seconds: 8,
    always: ['service'],
  }),
  scenario('anew-1000000', 'list of 1,000,000 pets, each after an update', {
    kind: 'anew',
    pets: 1_000_000,
    connections: 1,
    seconds: 6,
    targets: [against('fastify', 5)],
  }),
];
