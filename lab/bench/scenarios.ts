/** CPU time of a request, of the program, PostgreSQL and the pooler together; and requests a second. */
export type Figure = 'cpu' | 'rate';

/** The programs, by the names of the table. */
export const SIDES = {
  service: 'this service',
  fastify: 'Fastify + pg',
  pooled: 'this service behind PgBouncer',
  nest: 'NestJS + Prisma',
} as const;

export type SideName = keyof typeof SIDES;

/**
 * For the median of the ratios by round. CPU time is at most so much, a rate at least. The service is compared with the
 * scenario named in `alone`, otherwise with Fastify; behind PgBouncer, with itself without PgBouncer.
 */
export interface Goal {
  figure: Figure;
  side: 'service' | 'pooled';
  value: number;
  /** The day on which it was set. A goal can be changed for the next run, never for one that has taken place. */
  since: string;
}

export interface Scenario {
  name: string;
  title: string;
  /** `unchanged`: every list carries the ETag of the last. `hot`: all updates are of one pet. */
  kind: 'list' | 'unchanged' | 'update' | 'hot';
  pets: number;
  connections: number;
  /** Requests at a steady rate: beside writes, CPU time would otherwise depend on how many requests share them. */
  perSecond?: number;
  /** Sent beside the measured requests, at a steady rate. */
  updatesPerSecond: number;
  /** In another database of the same server: nothing to do with the stock. */
  commitsPerSecond: number;
  seconds: number;
  rounds: number;
  /** Measured in every round. */
  sides: readonly SideName[];
  /** Measured in the first two rounds only. */
  others: readonly SideName[];
  goals: readonly Goal[];
  /** The scenario with nothing beside. */
  alone?: string;
}

type Shape = Pick<Scenario, 'kind' | 'pets' | 'connections'>;

/** An interval over ten starts of each side, as every CPU time with a goal needs it. */
const compared = { rounds: 10, sides: ['service', 'fastify'] } as const satisfies Partial<Scenario>;

function scenario(name: string, title: string, rest: Partial<Scenario> & Shape): Scenario {
  return {
    name,
    title,
    updatesPerSecond: 0,
    commitsPerSecond: 0,
    seconds: 2,
    rounds: 2,
    sides: ['service'],
    others: [],
    goals: [],
    ...rest,
  };
}

function goal(figure: Figure, value: number, side: Goal['side'] = 'service'): Goal {
  return { figure, side, value, since: '2026-11-25' };
}

function over(connections: number): string {
  return connections === 1 ? '1 connection' : `${connections} connections`;
}

function lists(pets: number, connections: number, rest: Partial<Scenario> = {}): Scenario {
  const title = `list of ${pets.toLocaleString('en')} pets, ${over(connections)}`;
  return scenario(`list-${pets}-c${connections}`, title, { kind: 'list', pets, connections, ...rest });
}

function updates(connections: number, rest: Partial<Scenario>): Scenario {
  return scenario(`update-c${connections}`, `update, ${over(connections)}`, {
    kind: 'update',
    pets: 10_000,
    connections,
    ...compared,
    ...rest,
  });
}

/** The ordinary day: one client that sends a request every 20 ms. The machine is nearly idle between them. */
const ordinary = {
  perSecond: 50,
  seconds: 8, // CPU time is counted in ticks of 10 ms
  rounds: 3,
  sides: ['service', 'fastify'],
} as const satisfies Partial<Scenario>;

/** So many lists a second, whatever else the machine does. */
const steady = scenario('steady', 'list of 100,000 pets, 150 a second', {
  kind: 'list',
  pets: 100_000,
  connections: 32,
  perSecond: 150,
  seconds: 3,
  rounds: compared.rounds,
  sides: ['service', 'pooled'],
  goals: [goal('cpu', 1.3, 'pooled')],
});

/** The same with something written beside. */
function beside(name: string, what: string, rest: Partial<Scenario>): Scenario {
  return { ...steady, name: `steady-${name}`, title: `${steady.title}, ${what} beside`, alone: steady.name, ...rest };
}

/** In the order of the runs: scenarios of the same store stand together. */
export const scenarios: readonly Scenario[] = [
  lists(10, 64, { ...compared, others: ['nest'], goals: [goal('cpu', 0.25)] }),
  lists(10, 8, { ...compared, goals: [goal('cpu', 0.47)] }),
  lists(10, 1, { ...compared, others: ['nest'], goals: [goal('cpu', 0.95)] }),
  lists(10, 1, { ...ordinary, name: 'list-ordinary', title: 'list of 10 pets, 50 a second' }),
  lists(10_000, 8, { ...compared, rounds: 3, others: ['nest'] }),
  updates(64, { others: ['nest'], goals: [goal('cpu', 0.3), goal('rate', 2.6)] }),
  updates(8, { goals: [goal('cpu', 0.62), goal('rate', 1.3)] }),
  updates(2, { goals: [goal('cpu', 1.1)] }),
  updates(1, { others: ['nest'], goals: [goal('cpu', 1.6), goal('rate', 0.7)] }),
  updates(1, { ...ordinary, name: 'update-ordinary', title: 'update, 50 a second' }),
  scenario('hot', 'update of one pet, 64 connections', {
    kind: 'hot',
    pets: 10_000,
    connections: 64,
    sides: ['service', 'fastify'],
    goals: [goal('rate', 1.5)],
  }),
  steady,
  beside('updates', '100 updates/s', {
    updatesPerSecond: 100,
    goals: [goal('cpu', 2.2), goal('cpu', 1.3, 'pooled')],
  }),
  beside('commits', '100 unrelated commits/s', {
    commitsPerSecond: 100,
    sides: ['service'],
    goals: [goal('cpu', 1.5)],
  }),
  lists(100_000, 8, { others: ['fastify'] }),
  scenario('unchanged', 'unchanged list of 100,000 pets, 64 connections', {
    kind: 'unchanged',
    pets: 100_000,
    connections: 64,
  }),
  lists(1_000_000, 2, { seconds: 4 }),
];
