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
  /** In another database of the same server: nothing to do with the stock. */
  commitsPerSecond: number;
  gzip: boolean;
  seconds: number;
  /** Of the service and Fastify + pg, and of those that a target names. */
  rounds: number;
  /** Measured in the first round only. */
  others: readonly Contender[];
  targets: readonly Target[];
  /** Also in the quick run. */
  quick: boolean;
}

const n = (count: number) => count.toLocaleString('en');
const peers: readonly SideName[] = ['express', 'nest', 'weaker'];

function scenario(name: string, title: string, rest: Partial<Scenario> & Pick<Scenario, 'kind' | 'pets'>): Scenario {
  return {
    name,
    title,
    connections: 8,
    updatesPerSecond: 0,
    commitsPerSecond: 0,
    gzip: false,
    seconds: 2,
    rounds: 3,
    others: peers,
    targets: [],
    quick: false,
    ...rest,
  };
}

/** Where the trips to the database are most of the work, the peer that saves one takes part too. */
const withOneTrip: readonly SideName[] = ['oneTrip', ...peers];

/** Where a goal stands, the interval has to be narrow. */
const judged = { rounds: 5, seconds: 3 } as const;
const against = (contender: Contender, atLeast: number): Target => ({ against: contender, atLeast });

function lists(pets: number, connections: number, rest: Partial<Scenario> = {}): Scenario {
  const title = `list of ${n(pets)} pets, ${connections} ${connections === 1 ? 'connection' : 'connections'}`;
  return scenario(`list-${pets}-c${connections}`, title, { kind: 'list', pets, connections, ...rest });
}

function updates(connections: number, rest: Partial<Scenario> = {}): Scenario {
  const title = `update, ${connections} ${connections === 1 ? 'connection' : 'connections'}`;
  return scenario(`update-c${connections}`, title, { kind: 'update', pets: 10_000, connections, ...rest });
}

/** In the order of the runs: scenarios of the same store stand together. */
export const scenarios: readonly Scenario[] = [
  lists(10, 1, { ...judged, others: withOneTrip, targets: [against('fastify', 1)] }),
  lists(10, 8, { ...judged, others: withOneTrip, targets: [against('fastify', 1.5)] }),
  lists(10, 64, { ...judged, others: withOneTrip, targets: [against('fastify', 4)], quick: true }),
  scenario('unchanged-10', 'unchanged list of 10 pets, 64 connections', {
    kind: 'unchanged',
    pets: 10,
    connections: 64,
  }),
  lists(1_000, 1),
  lists(1_000, 8),
  lists(1_000, 64),
  scenario('mixed', 'nine lists of 1,000 pets to one update, 64 connections', {
    kind: 'mixed',
    pets: 1_000,
    connections: 64,
  }),
  lists(10_000, 1),
  lists(10_000, 8, {
    ...judged,
    others: [...peers, 'bare'],
    targets: [against('fastify', 45), against('bare', 0.6)],
    quick: true,
  }),
  lists(10_000, 64),
  scenario('list-10000-updates', 'list of 10,000 pets, 8 connections, 100 updates/s beside', {
    kind: 'list',
    pets: 10_000,
    updatesPerSecond: 100,
    ...judged,
    targets: [against('fastify', 8)],
    quick: true,
  }),
  scenario('list-10000-commits', 'list of 10,000 pets, 8 connections, 100 unrelated commits/s beside', {
    kind: 'list',
    pets: 10_000,
    commitsPerSecond: 100,
    ...judged,
    others: [],
  }),
  updates(1, { ...judged, others: withOneTrip, targets: [against('fastify', 0.9)] }),
  updates(8, { ...judged, others: withOneTrip, targets: [against('fastify', 1.2)] }),
  updates(64, {
    ...judged,
    others: [...withOneTrip, 'pgbench'],
    targets: [against('fastify', 3.5), against('pgbench', 1)],
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
  lists(100_000, 1, { others: [] }),
  lists(100_000, 8, {
    ...judged,
    rounds: 4,
    seconds: 8,
    others: [...peers, 'bare'],
    targets: [against('fastify', 110)],
  }),
  scenario('list-100000-updates', 'list of 100,000 pets, 8 connections, 100 updates/s beside', {
    kind: 'list',
    pets: 100_000,
    updatesPerSecond: 100,
    seconds: 8,
    others: [],
  }),
  scenario('list-100000-gzip', 'list of 100,000 pets in gzip, 8 connections', {
    kind: 'list',
    pets: 100_000,
    gzip: true,
    seconds: 5,
    others: [],
  }),
  scenario('list-100000-gzip-updates', 'list of 100,000 pets in gzip, 8 connections, 100 updates/s beside', {
    kind: 'list',
    pets: 100_000,
    gzip: true,
    updatesPerSecond: 100,
    seconds: 5,
    others: [],
  }),
  lists(100_000, 64, { seconds: 8, rounds: 2, others: [] }),
  scenario('unchanged-100000', 'unchanged list of 100,000 pets, 64 connections', {
    kind: 'unchanged',
    pets: 100_000,
    connections: 64,
  }),
  lists(1_000_000, 1, { rounds: 2, seconds: 8, others: ['bare'] }),
  lists(1_000_000, 2, { rounds: 2, seconds: 8, others: [] }),
  scenario('list-1000000-updates', 'list of 1,000,000 pets, 2 connections, 10 updates/s beside', {
    kind: 'list',
    pets: 1_000_000,
    connections: 2,
    updatesPerSecond: 10,
    seconds: 8,
    rounds: 2,
    others: [],
  }),
  lists(1_000_000, 4, { rounds: 2, seconds: 8, others: ['bare'] }),
  scenario('anew-1000000', 'list of 1,000,000 pets, each after an update', {
    kind: 'anew',
    pets: 1_000_000,
    connections: 1,
    seconds: 10,
    rounds: 3,
    others: [],
    targets: [against('fastify', 5)],
  }),
];
