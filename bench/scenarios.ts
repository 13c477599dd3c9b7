import type { SideName } from './sides.ts';

export type Contender = SideName | 'pgbench';

/** Requests a second, CPU time of the program and of PostgreSQL together, and the slowest hundredth. */
export type Figure = 'rate' | 'cpu' | 'p99';

/** For the median of the ratios by round, the service's figure to the other's. A rate is at least so much, the others at most. */
export interface Target {
  figure: Figure;
  against: Contender;
  goal: number;
  /** One sentence why the goal is no longer wanted. Its figure stays on the page. */
  withdrawn?: string;
}

export interface Scenario {
  name: string;
  title: string;
  /** `anew`: every list follows an update, one at a time; `unchanged`: every list carries the ETag of the last. */
  kind: 'list' | 'unchanged' | 'anew' | 'update' | 'hot';
  pets: number;
  connections: number;
  /** Sent beside the measured requests, at a steady rate. */
  updatesPerSecond: number;
  /** In another database of the same server: nothing to do with the stock. */
  commitsPerSecond: number;
  /** In turn one that comes and one that goes, by SQL. */
  petsPerSecond: number;
  gzip: boolean;
  seconds: number;
  rounds: number;
  /** Measured in every round, as are those that a target names. */
  always: readonly Contender[];
  /** Measured in the first round only; in the whole run only those that the page compares. */
  others: readonly Contender[];
  targets: readonly Target[];
  /** Of a process's first scenario: what V8 has still to compile is the slowest hundredth's for some seconds. */
  longWarmUp: boolean;
  /** The service's lists a second should be at least this share of another scenario's, round by round. */
  share?: { of: string; atLeast: number; withdrawn?: string };
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
/** Where the goal is a share of the same lists without writes, both take turns at least five times. */
const shared = { rounds: 5, seconds: 4 } as const;

/** A goal for the ratio to Fastify + pg. */
function goal(figure: Figure, goal: number, withdrawn?: string): Target {
  return { figure, against: 'fastify', goal, ...(withdrawn === undefined ? {} : { withdrawn }) };
}

const LONE_CALLER =
  'Nothing is shared: a request pays for its own round trips and system calls, and for all of NestJS.';
const SMALL_BATCHES = 'A batch has some four updates, and an update first waits for the batch before its own.';
const SENDING = 'The kernel takes nearly all the time to send 6 MB, for every program.';
const PIECES = 'Pieces are cut by content and differ in length, so that updates more often meet long ones.';
const BARE = 'The bare server only sends a buffer: it checks no key and asks no database.';
const PGBENCH = 'pgbench only sends the statement, from C: it speaks no HTTP, checks no key and parses no JSON.';

function over(connections: number): string {
  return connections === 1 ? '1 connection' : `${connections} connections`;
}

function lists(pets: number, connections: number, rest: Partial<Scenario> = {}): Scenario {
  const title = `list of ${pets.toLocaleString('en')} pets, ${over(connections)}`;
  return scenario(`list-${pets}-c${connections}`, title, { kind: 'list', pets, connections, ...rest });
}

function unchangedLists(pets: number): Scenario {
  const title = `unchanged list of ${pets.toLocaleString('en')} pets, 64 connections`;
  return scenario(`unchanged-${pets}`, title, { kind: 'unchanged', pets, connections: 64, always: ['service'] });
}

function updates(connections: number, rest: Partial<Scenario>): Scenario {
  const shape: Shape = { kind: 'update', pets: 10_000, connections };
  return scenario(`update-c${connections}`, `update, ${over(connections)}`, { ...shape, ...judged, ...rest });
}

/** The same list with something written beside, which should leave the service at least such a share of its rate. */
function beside(
  base: Scenario,
  name: string,
  what: string,
  atLeast: number,
  rest: Partial<Scenario>,
  withdrawn?: string,
): Scenario {
  const title = `${base.title}, ${what}`;
  const alone = { always: ['service'], others: [], targets: [], quick: false } as const;
  return {
    ...base,
    ...alone,
    name: `${base.name}-${name}`,
    title,
    share: { of: base.name, atLeast, ...(withdrawn && { withdrawn }) },
    ...rest,
  };
}

const list10000 = lists(10_000, 8, {
  ...judged,
  others: [...peers, 'keeping'],
  targets: [goal('rate', 45), { figure: 'rate', against: 'bare', goal: 0.6, withdrawn: BARE }],
  quick: true,
});
const list100000 = lists(100_000, 8, {
  ...shared,
  others: [...peers, 'keeping', 'bare'],
  targets: [goal('rate', 110, SENDING)],
});
const gzip100000: Scenario = {
  ...lists(100_000, 8, { rounds: 4, seconds: 4, gzip: true, always: ['service'] }),
  name: 'list-100000-gzip',
  title: 'list of 100,000 pets in gzip, 8 connections',
};
const list1000000 = lists(1_000_000, 2, { ...shared, always: ['service'], others: ['fastify', 'bare'] });

/** In the order of the runs: scenarios of the same store stand together. */
export const scenarios: readonly Scenario[] = [
  lists(10, 1, {
    ...judgedWarm,
    others: ['oneTrip'],
    targets: [goal('rate', 1.1), goal('cpu', 0.9), goal('p99', 1.2, LONE_CALLER)],
  }),
  lists(10, 8, {
    ...judgedWarm,
    others: withOneTrip,
    targets: [goal('rate', 1.9), goal('cpu', 0.4), goal('p99', 1.2)],
  }),
  lists(10, 64, {
    ...judgedWarm,
    others: withOneTrip,
    targets: [goal('rate', 3), goal('cpu', 0.3)],
    quick: true,
  }),
  unchangedLists(10),
  // For the table of docs/scaling.md.
  lists(1_000, 1, { always: ['service'], others: ['fastify'] }),
  lists(1_000, 64, { always: ['service'], others: ['fastify', ...peers] }),
  list10000,
  beside(
    list10000,
    'updates',
    '100 updates/s beside',
    0.75,
    {
      updatesPerSecond: 100,
      always: ['service', 'fastify'],
      others: [...peers, 'keeping'],
      targets: [goal('rate', 8)],
      quick: true,
    },
    'The updates and their load use the same two cores.',
  ),
  beside(list10000, 'commits', '100 unrelated commits/s beside', 0.85, { commitsPerSecond: 100 }),
  updates(1, {
    ...judgedWarm,
    others: ['oneTrip'],
    targets: [goal('rate', 0.7, LONE_CALLER), goal('cpu', 1.7), goal('p99', 1.2, LONE_CALLER)],
  }),
  updates(8, {
    ...judgedWarm,
    others: ['oneTrip'],
    targets: [goal('rate', 1.3, SMALL_BATCHES), goal('cpu', 0.8), goal('p99', 1.2, SMALL_BATCHES)],
  }),
  updates(64, {
    ...judgedWarm,
    others: withOneTrip,
    targets: [goal('rate', 3), goal('cpu', 0.33), { figure: 'rate', against: 'pgbench', goal: 1, withdrawn: PGBENCH }],
    quick: true,
  }),
  scenario('hot', 'update of one pet, 64 connections', {
    kind: 'hot',
    pets: 10_000,
    connections: 64,
    targets: [goal('rate', 1.5)],
    quick: true,
  }),
  list100000,
  beside(
    list100000,
    'updates',
    '100 updates/s beside',
    0.85,
    {
      updatesPerSecond: 100,
      others: ['fastify', 'keeping'],
    },
    PIECES,
  ),
  beside(list100000, 'pets', '10 pets/s that come or go', 0.8, { petsPerSecond: 10 }),
  gzip100000,
  beside(gzip100000, 'updates', '100 updates/s beside', 0.5, { updatesPerSecond: 100 }, PIECES),
  unchangedLists(100_000),
  list1000000,
  beside(list1000000, 'updates', '10 updates/s beside', 0.9, { updatesPerSecond: 10, others: ['fastify'] }),
  beside(list1000000, 'pets', 'a pet a second that comes or goes', 0.85, { petsPerSecond: 1 }),
  scenario('anew-1000000', 'list of 1,000,000 pets, each after an update', {
    kind: 'anew',
    pets: 1_000_000,
    connections: 1,
    seconds: 4,
    targets: [goal('rate', 5)],
  }),
];
