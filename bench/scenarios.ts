import type { SideName } from './sides.ts';

/** CPU time of a request, of the program and PostgreSQL together; and requests a second. */
export type Figure = 'cpu' | 'rate';

/** For the median of the ratios by round, the service's figure to Fastify's. CPU time is at most so much, a rate at least. */
export interface Goal {
  figure: Figure;
  value: number;
  /** The day on which it was set. A goal can be changed for the next run, never for one that has taken place. */
  since: string;
  /** One true sentence why the last run missed it. */
  why?: string;
}

export interface Scenario {
  name: string;
  title: string;
  /** `anew`: every list follows an update, one at a time; `unchanged`: every list carries the ETag of the last. */
  kind: 'list' | 'unchanged' | 'anew' | 'update' | 'hot';
  pets: number;
  connections: number;
  /** Requests at a steady rate: beside writes, CPU time would otherwise depend on how many requests share them. */
  perSecond?: number;
  /** Sent beside the measured requests, at a steady rate. */
  updatesPerSecond: number;
  /** In another database of the same server: nothing to do with the stock. */
  commitsPerSecond: number;
  /** In turn one that comes and one that goes, by SQL. */
  petsPerSecond: number;
  gzip: boolean;
  seconds: number;
  rounds: number;
  /** Measured in every round. */
  sides: readonly SideName[];
  /** Measured in the first two rounds only. */
  others: readonly SideName[];
  goals: readonly Goal[];
  /** The CPU time of a list is at most this much of the same list with nothing beside, round by round. */
  share?: { of: string; atMost: number; since: string; why?: string };
  /** Also in the quick run. */
  quick: boolean;
}

type Shape = Pick<Scenario, 'kind' | 'pets' | 'connections'>;

const SINCE = '2026-11-25';

/** A CPU figure with a goal has an interval over ten starts of each side. */
const judged = { rounds: 10, sides: ['service', 'fastify'] } as const satisfies Partial<Scenario>;

function scenario(name: string, title: string, rest: Partial<Scenario> & Shape): Scenario {
  return {
    name,
    title,
    updatesPerSecond: 0,
    commitsPerSecond: 0,
    petsPerSecond: 0,
    gzip: false,
    seconds: 2,
    rounds: 2,
    sides: ['service'],
    others: [],
    goals: [],
    quick: false,
    ...rest,
  };
}

function cpu(value: number, why?: string): Goal {
  return { figure: 'cpu', value, since: SINCE, ...(why === undefined ? {} : { why }) };
}

function rate(value: number, why?: string): Goal {
  return { figure: 'rate', value, since: SINCE, ...(why === undefined ? {} : { why }) };
}

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
  return scenario(`update-c${connections}`, `update, ${over(connections)}`, {
    ...shape,
    ...judged,
    others: ['nest'],
    ...rest,
  });
}

/** So many of the list a second, whatever else the machine does. */
function steady(base: Scenario, perSecond: number): Scenario {
  const title = `${base.title.replace(/, \d+ connections$/, '')}, ${perSecond} a second`;
  return {
    ...base,
    ...judged,
    sides: ['service'],
    others: [],
    goals: [],
    quick: false,
    seconds: 3,
    perSecond,
    title,
    name: `${base.name}-steady`,
  };
}

/** The same list with something written beside. */
function beside(base: Scenario, name: string, what: string, atMost: number, rest: Partial<Scenario>): Scenario {
  const share = { of: base.name, atMost, since: SINCE };
  return { ...base, name: `${base.name}-${name}`, title: `${base.title}, ${what}`, share, ...rest };
}

const list10000 = lists(10_000, 8, { ...judged, others: ['nest'], goals: [cpu(0.03)], quick: true });
const steady10000 = steady(list10000, 300);
const list100000 = lists(100_000, 8, { ...judged, others: ['nest'], goals: [cpu(0.03)] });
const steady100000 = steady(list100000, 100);
const list1000000 = lists(1_000_000, 2, { seconds: 4 });

/** In the order of the runs: scenarios of the same store stand together. */
export const scenarios: readonly Scenario[] = [
  lists(10, 64, { ...judged, others: ['nest'], goals: [cpu(0.25)], quick: true }),
  lists(10, 8, { ...judged, others: ['nest'], goals: [cpu(0.47)] }),
  lists(10, 1, { ...judged, others: ['nest'], goals: [cpu(0.95)], quick: true }),
  unchangedLists(10),
  // For the table of docs/scaling.md.
  lists(1_000, 1, { others: ['fastify'] }),
  lists(1_000, 64, { others: ['fastify', 'nest'] }),
  list10000,
  steady10000,
  beside(steady10000, 'updates', '100 updates/s beside', 2.5, { updatesPerSecond: 100 }),
  beside(steady10000, 'commits', '100 unrelated commits/s beside', 2, { commitsPerSecond: 100 }),
  updates(64, { goals: [cpu(0.3), rate(2.6)], quick: true }),
  updates(8, { goals: [cpu(0.62), rate(1.3)] }),
  updates(2, { goals: [cpu(1.1)] }),
  updates(1, { goals: [cpu(1.6), rate(0.7)], quick: true }),
  scenario('hot', 'update of one pet, 64 connections', {
    kind: 'hot',
    pets: 10_000,
    connections: 64,
    rounds: 4,
    sides: ['service', 'fastify'],
    goals: [rate(1.5)],
  }),
  list100000,
  steady100000,
  beside(steady100000, 'updates', '100 updates/s beside', 2.5, { updatesPerSecond: 100 }),
  beside(steady100000, 'pets', '10 pets/s that come or go', 1.5, { petsPerSecond: 10 }),
  unchangedLists(100_000),
  list1000000,
  scenario('anew-1000000', 'list of 1,000,000 pets, each after an update', {
    kind: 'anew',
    pets: 1_000_000,
    connections: 1,
    seconds: 4,
    others: ['fastify'],
  }),
];
