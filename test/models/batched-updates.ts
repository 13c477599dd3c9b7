import { type Model, type Step, nth } from './explorer.ts';

/**
 * The batched update as a model: docs/decisions/batched-updates.md and docs/decisions/idempotency-keys.md have the
 * proof. There are two pets, two processes, and the three updates of a workload. PostgreSQL runs a statement in three
 * steps: it takes the snapshot, it locks and writes, it commits.
 */
const PROCESSES = [1, 2] as const;
/** The numbers of the updates. */
const NUMBERS = [1, 2, 3] as const;
/** Lost connections, statements that fail, and deadlines that pass. */
const FAULTS = 1;

export interface Update {
  readonly pet: number;
  readonly quantity: number;
  /** The quantities for which it holds. */
  readonly ifMatch: readonly number[] | null;
  readonly key: string | null;
  /** Not by a process of the service. */
  readonly isSql?: true;
}

/** A row of `stock_change`. */
interface Change {
  /** The number of the update that wrote it. */
  readonly n: number;
  readonly pet: number;
  readonly before: number;
  readonly after: number;
  readonly key: string | null;
}

/** What a statement says of an update. */
type Outcome = 'done' | 'replayed' | 'key_reused' | 'precondition_failed' | 'busy' | 'no_history_row';

type Answer =
  Exclude<Outcome, 'busy' | 'no_history_row'> | 'validation_failed' | 'service_unavailable' | 'outcome_unknown';

/** An update that a process has, and what the statement before said of it. */
interface Call {
  readonly process: number;
  readonly n: number;
  readonly before?: Outcome;
}

interface Statement {
  /** Null after the connection was lost. */
  process: number | null;
  readonly calls: readonly Call[];
  /** The outcomes of the updates whose key is in the snapshot. */
  readonly known: Readonly<Record<number, Outcome>>;
  /** The stock of the snapshot. */
  readonly snapshot: Stock;
  /** Since it has locked and written. */
  written?: { outcomes: Record<number, Outcome>; locked: number[]; changes: Change[]; stock: Partial<Stock> };
}

type Stock = Record<number, number>;

export interface State {
  readonly workload: Workload;
  stock: Stock;
  history: Change[];
  statements: Statement[];
  /** They wait for another statement. */
  waiting: Call[];
  /** The updates that began; and those that met a moment in which their condition failed while their key was unused. */
  begun: number[];
  refusable: number[];
  answers: Record<number, Answer>;
  faults: number;
}

const NO_CONDITION = { ifMatch: null, key: null };
const REPEATED = { pet: 1, quantity: 1, ifMatch: null, key: 'k' };
const IF_0 = { ...REPEATED, ifMatch: [0] };
const IF_1_OR_3 = { ...REPEATED, ifMatch: [1, 3] };

/** The same update twice: a repetition. */
const WORKLOADS = {
  'three of a pet': [1, 2, 3].map((quantity) => ({ ...NO_CONDITION, pet: 1, quantity })),
  conditions: [
    { pet: 1, quantity: 1, ifMatch: [0], key: null },
    { pet: 1, quantity: 2, ifMatch: [0], key: null },
    { pet: 1, quantity: 3, ifMatch: [1, 2], key: null },
  ],
  'one key, two pets': [REPEATED, { ...REPEATED, pet: 2, quantity: 2 }, { ...NO_CONDITION, pet: 2, quantity: 3 }],
  'repetition with a condition': [IF_0, IF_0, { ...NO_CONDITION, pet: 1, quantity: 3 }],
  'repetition, and SQL that lets the condition hold': [
    IF_1_OR_3,
    IF_1_OR_3,
    { ...NO_CONDITION, pet: 1, quantity: 3, isSql: true },
  ],
} satisfies Record<string, Update[]>;
type Workload = keyof typeof WORKLOADS;

const ONE_RUN = ['process 1: #run 1, 2', 'process 1: locks and writes', 'process 1: commits'] as const;
const TWO_RUNS = [
  ...['process 1: #run 1', 'process 2: #run 2', 'process 1: locks and writes', 'process 1: commits'],
  ...['process 2: locks and writes', 'process 2: commits'],
] as const;

/** Each mistake, with an order of steps that does harm. */
export const MISTAKES = {
  'a batch is repeated after an unknown outcome': {
    workload: 'three of a pet',
    order: [
      ...['process 1: #run 1', 'process 1: loses its connection', 'process 1: #run 1'],
      ...['lost statement: locks and writes', 'lost statement: commits'],
      ...['process 1: locks and writes', 'process 1: commits'],
    ],
    harm: 'update 1 took place twice',
  },
  'a lost connection counts as not applied': {
    workload: 'three of a pet',
    order: [
      ...['process 1: #run 1', 'process 1: loses its connection'],
      ...['lost statement: locks and writes', 'lost statement: commits'],
    ],
    harm: 'update 1 is answered with service_unavailable, and took place',
  },
  'an update is answered before its commit': {
    workload: 'three of a pet',
    order: ['process 1: #run 1', 'process 1: locks and writes'],
    harm: 'update 1 is answered with done, and did not take place',
  },
  'each update of a chain finds what is in the table': {
    workload: 'three of a pet',
    order: ONE_RUN,
    harm: 'pet 1 changed from 0, but was 1',
  },
  'a condition is compared with the snapshot': {
    workload: 'three of a pet',
    order: TWO_RUNS,
    harm: 'pet 1 changed from 0, but was 1',
  },
  'an update with a condition shares its batch with another one of its pet': {
    workload: 'conditions',
    order: ONE_RUN,
    harm: 'update 2 took place against its condition',
  },
  'an update with a key shares its batch with another one of its pet': {
    workload: 'one key, two pets',
    order: ['process 1: #run 1, 2, 3', 'process 1: locks and writes', 'process 1: commits'],
    harm: 'pet 2 changed from 2, but was 0',
  },
  'a key is known whatever its update says': {
    workload: 'one key, two pets',
    order: [
      ...['process 1: #run 1', 'process 1: locks and writes', 'process 1: commits'],
      ...['process 1: #run 2', 'process 1: locks and writes', 'process 1: commits'],
    ],
    harm: 'update 2 is answered with replayed, but it never took place',
  },
  'a key is looked up only before the lock': {
    workload: 'one key, two pets',
    order: ONE_RUN,
    harm: 'update 1 took place twice',
  },
  'a pet is written although its history row is not': {
    workload: 'one key, two pets',
    order: ONE_RUN,
    harm: 'pet 2 is 2, but its history ends with 0',
  },
  'a 412 with a key is sent after one statement': {
    workload: 'repetition with a condition',
    order: TWO_RUNS,
    harm: 'update 2 is refused, but at no moment was it to be refused',
  },
  'a key that is taken after a 412 is not looked up': {
    workload: 'repetition, and SQL that lets the condition hold',
    order: [
      ...['process 1: #run 1', 'process 2: #run 2', 'process 1: locks and writes', 'process 1: commits'],
      ...['process 1: #run 1', 'SQL: 3', 'process 2: locks and writes', 'process 2: commits'],
      ...['process 1: locks and writes', 'process 1: commits'],
    ],
    harm: 'update 1 is answered with validation_failed',
  },
} as const satisfies Record<string, { workload: Workload; order: readonly string[]; harm: string }>;
export type Mistake = keyof typeof MISTAKES;

/** @param mistake is planted */
export function batchedUpdates(mistake?: Mistake): Model<State> {
  const has = (one: Mistake) => one === mistake;

  /** `Batcher.#take`: an update with a precondition or a key is the only one of its pet. */
  function mayGo(batch: readonly Update[]): boolean {
    const mayShare = has('an update with a condition shares its batch with another one of its pet');
    const mayShareKeyed = has('an update with a key shares its batch with another one of its pet');
    const isExclusive = ({ ifMatch, key }: Update) =>
      (key !== null && !mayShareKeyed) || (ifMatch !== null && !mayShare);
    const sharesPet = ({ pet }: Update) => batch.filter((other) => other.pet === pet).length > 1;
    return !batch.some((one) => isExclusive(one) && sharesPet(one));
  }

  /** `QuantityUpdates.#run`: the statement takes its snapshot, and finds the keys that this shows. */
  function run(next: State, process: number, calls: readonly Call[]): void {
    const known: Record<number, Outcome> = {};
    for (const { n } of calls) {
      const { key, pet, quantity } = updateOf(next.workload, n);
      const change = next.history.find((change) => key !== null && change.key === key);
      const isSame = change?.pet === pet && change.after === quantity;
      if (change) known[n] = isSame || has('a key is known whatever its update says') ? 'replayed' : 'key_reused';
      if (!next.begun.includes(n)) next.begun = [...next.begun, n].sort();
    }
    next.statements.push({ process, calls, known, snapshot: next.stock });
    next.waiting = next.waiting.filter((each) => calls.every(({ n }) => n !== each.n));
    noteRefusable(next);
  }

  /** Whether a statement waits for another one, which has recorded the same key and has not ended. */
  function waits(state: State, { calls, known }: Statement): boolean {
    const keys = calls.filter(({ n }) => !known[n]).map(({ n }) => updateOf(state.workload, n).key);
    const recorded = state.statements.flatMap(({ written }) => written?.changes ?? []);
    return recorded.some(({ key }) => key !== null && keys.includes(key));
  }

  /** The statement locks the free rows, checks the preconditions, and writes. */
  function lockAndWrite(next: State, statement: Statement): void {
    const held = next.statements.flatMap(({ written }) => written?.locked ?? []);
    const outcomes: Record<number, Outcome> = { ...statement.known };
    const [locked, changes, stock]: [number[], Change[], Partial<Stock>] = [[], [], {}];
    const chained: Partial<Stock> = {}; // `updateStatement`: an update finds what the one before it asks for
    for (const { n } of statement.calls) {
      const { pet, quantity, ifMatch, key } = updateOf(next.workload, n);
      const requested = chained[pet];
      chained[pet] = quantity;
      if (outcomes[n]) continue;
      const present = (has('a condition is compared with the snapshot') ? statement.snapshot : next.stock)[pet] ?? 0;
      const before = has('each update of a chain finds what is in the table') ? present : (requested ?? present);
      const isTaken = key !== null && [...next.history, ...changes].some((change) => change.key === key);
      if (held.includes(pet)) outcomes[n] = 'busy';
      else if (ifMatch && !ifMatch.includes(present)) outcomes[n] = 'precondition_failed';
      else if (isTaken && !has('a key is looked up only before the lock')) outcomes[n] = 'no_history_row';
      else outcomes[n] = 'done';
      if (!held.includes(pet)) locked.push(pet);
      if (outcomes[n] === 'done') changes.push({ n, pet, before, after: quantity, key });
      const isWritten = outcomes[n] === 'no_history_row' && has('a pet is written although its history row is not');
      if (outcomes[n] === 'done' || isWritten) stock[pet] = quantity;
    }
    statement.written = { outcomes, locked, changes, stock };
    if (has('an update is answered before its commit')) answer(next, statement);
  }

  function commit(next: State, statement: Statement): void {
    end(next, statement);
    next.history.push(...(statement.written?.changes ?? []));
    Object.assign(next.stock, statement.written?.stock);
    noteRefusable(next);
    if (!has('an update is answered before its commit')) answer(next, statement);
  }

  /** `QuantityUpdates.attempt`, in `retryUntilApplied`. */
  function answer(next: State, { process, calls, written }: Statement): void {
    if (process === null || !written) return;
    for (const call of calls) {
      const { n, before } = call;
      const outcome = written.outcomes[n] ?? 'busy';
      const isKeyed = updateOf(next.workload, n).key !== null;
      const isFinal = has('a key that is taken after a 412 is not looked up') ? before : before === 'no_history_row';
      const mayBeKnown = isKeyed && !before && !has('a 412 with a key is sent after one statement');
      if (outcome === 'busy') next.waiting.push({ process, n });
      else if (outcome === 'no_history_row' && isFinal) next.answers[n] = 'validation_failed';
      else if (outcome === 'no_history_row' || (outcome === 'precondition_failed' && mayBeKnown))
        next.waiting.push({ ...call, before: outcome });
      else next.answers[n] = outcome;
    }
  }

  /** The process does not learn what becomes of its statement. */
  function loseConnection(next: State, statement: Statement): void {
    statement.process = null;
    next.faults++;
    for (const { process, n } of statement.calls) {
      if (has('a batch is repeated after an unknown outcome')) next.waiting.push({ process, n });
      else next.answers[n] = has('a lost connection counts as not applied') ? 'service_unavailable' : 'outcome_unknown';
    }
  }

  function* ofProcesses(state: State): Generator<Step<State>> {
    const { statements, waiting, begun, workload } = state;
    for (const process of PROCESSES) {
      if (process === 2 && begun.length === 0) continue; // the processes are alike
      const own = waiting.filter((each) => each.process === process);
      if (state.faults < FAULTS)
        for (const { n } of own) yield [`process ${process}: deadline of ${n}`, (next) => giveUp(next, n)];
      if (statements.some((each) => each.process === process)) continue;
      const fresh = NUMBERS.filter((n) => !begun.includes(n) && !updateOf(workload, n).isSql);
      const calls = [...own, ...fresh.map((n) => ({ process, n }))];
      for (const batch of subsets(calls).filter((batch) => mayGo(batch.map(({ n }) => updateOf(workload, n)))))
        yield [`process ${process}: #run ${batch.map(({ n }) => n).join(', ')}`, (next) => run(next, process, batch)];
    }
  }

  function* ofStatements(state: State): Generator<Step<State>> {
    for (const [at, statement] of state.statements.entries()) {
      const { process, written } = statement;
      const name = process === null ? 'lost statement' : `process ${process}`;
      const of = (act: (next: State, statement: Statement) => void) => (next: State) =>
        act(next, nth(next.statements, at));
      if (process === null) yield [`${name}: rolls back`, of(end)];
      else if (state.faults < FAULTS)
        yield* [
          [`${name}: loses its connection`, of(loseConnection)],
          [`${name}: fails`, of(fail)],
        ] as const;
      if (written) yield [`${name}: commits`, of(commit)];
      else if (!waits(state, statement)) yield [`${name}: locks and writes`, of(lockAndWrite)];
    }
  }

  return {
    initial: (Object.keys(WORKLOADS) as Workload[]).map((workload) => ({
      ...{ workload, stock: { 1: 0, 2: 0 }, history: [], statements: [], waiting: [] },
      ...{ begun: [], refusable: [], answers: {}, faults: 0 },
    })),
    *steps(state) {
      yield* ofProcesses(state);
      yield* ofStatements(state);
      yield* ofSql(state);
    },
    violation,
    key: (state) => JSON.stringify(state),
  };
}

/** A statement of somebody else. */
function* ofSql({ workload, begun, statements }: State): Generator<Step<State>> {
  for (const n of NUMBERS) {
    const { pet, quantity, isSql } = updateOf(workload, n);
    const isLocked = statements.some(({ written }) => written?.locked.includes(pet));
    if (!isSql || begun.includes(n) || isLocked) continue;
    yield [
      `SQL: ${n}`,
      (next) => {
        next.begun = [...begun, n].sort();
        next.history.push({ n, pet, before: next.stock[pet] ?? 0, after: quantity, key: null });
        next.stock[pet] = quantity;
        next.answers[n] = 'done';
        noteRefusable(next);
      },
    ];
  }
}

/**
 * Each change follows on the one before, and each update took place as its answer says: at most once, and not against
 * its condition.
 */
export function violation(
  state: Pick<State, 'workload' | 'stock' | 'history' | 'answers' | 'refusable'>,
): string | undefined {
  const { workload, stock, history, answers, refusable } = state;
  for (const [pet, quantity] of Object.entries(stock)) {
    let held = 0;
    for (const { before, after } of history.filter((change) => change.pet === Number(pet))) {
      if (before !== held) return `pet ${pet} changed from ${before}, but was ${held}`;
      held = after;
    }
    if (held !== quantity) return `pet ${pet} is ${quantity}, but its history ends with ${held}`;
  }
  for (const change of history) {
    const { n, key, before } = change;
    if (history.some((other) => other !== change && (other.n === n || (key !== null && other.key === key))))
      return `update ${n} took place twice`;
    if (updateOf(workload, n).ifMatch?.includes(before) === false)
      return `update ${n} took place against its condition`;
  }
  for (const n of NUMBERS.filter((n) => answers[n])) {
    const answer = answers[n];
    const tookPlace = history.some((change) => change.n === n);
    const { key, pet, quantity } = updateOf(workload, n);
    const first = history.find((change) => key !== null && change.key === key);
    const isSame = first?.pet === pet && first.after === quantity;
    const isAnswered = `update ${n} is answered with ${answer}`;
    if (answer === 'outcome_unknown') continue;
    if (answer === 'done' && !tookPlace) return `${isAnswered}, and did not take place`;
    if (answer !== 'done' && tookPlace) return `${isAnswered}, and took place`;
    if (answer === 'validation_failed') return isAnswered;
    if (answer === 'replayed' && !isSame) return `${isAnswered}, but it never took place`;
    if (answer === 'key_reused' && (!first || isSame)) return `${isAnswered}, but no other update used its key`;
    if (answer === 'precondition_failed' && !refusable.includes(n))
      return `update ${n} is refused, but at no moment was it to be refused`;
  }
  return undefined;
}

function end(next: State, statement: Statement): void {
  next.statements = next.statements.filter((each) => each !== statement);
}

/** The statement is surely rolled back, for example when it has waited too long for the lock of a table. */
function fail(next: State, statement: Statement): void {
  end(next, statement);
  next.faults++;
  next.waiting.push(...statement.calls.map(({ process, n }) => ({ process, n })));
}

/** Its deadline passes before another statement has it. */
function giveUp(next: State, n: number): void {
  next.waiting = next.waiting.filter((each) => each.n !== n);
  next.answers[n] = 'service_unavailable';
  next.faults++;
}

export function updateOf(workload: Workload, n: number): Update {
  return nth<Update>(WORKLOADS[workload], n - 1);
}

function noteRefusable({ begun, refusable, answers, stock, history, workload }: State): void {
  for (const n of begun) {
    const { ifMatch, key, pet } = updateOf(workload, n);
    if (answers[n] || refusable.includes(n) || !ifMatch) continue;
    const isUsed = key !== null && history.some((change) => change.key === key);
    if (!isUsed && !ifMatch.includes(stock[pet] ?? 0)) refusable.push(n);
  }
  refusable.sort();
}

function subsets<Each>(all: readonly Each[]): (readonly Each[])[] {
  return Array.from({ length: 2 ** all.length - 1 }, (_, bits) => all.filter((_, at) => (bits + 1) & (1 << at)));
}
