import { type Model, type Step, nth } from './explorer.ts';

/**
 * The kept list as a model: docs/decisions/kept-list.md has the proof. There are two pets, three transactions, and two processes
 * behind a pooler. A step has the name of the function or the statement that takes it.
 */
const PETS = [0, 1] as const;
const TRANSACTIONS = 3;
/** Crashes, promotions, resets of the statistics, replicated changes, and changes with the trigger off. */
const FAULTS = 1;

/** A transaction that has an id and has not ended. It sets the quantity of its pet to its number. */
interface Writer {
  readonly n: number;
  readonly id: number;
  readonly pet: number;
  /** The trigger function that records its change. With `DISABLE TRIGGER` in the transaction there is none. */
  readonly recordedBy: 'record_stock_change' | 'mark_unrecorded_change' | 'DISABLE TRIGGER';
}

/** What PostgreSQL writes to its log. */
interface Database {
  stock: number[];
  writers: Writer[];
  nextId: number;
  lastEnded: number;
  /** Of each pet, the column `changed_in` of its rows in `stock_change`. */
  history: number[][];
  /** `unrecorded_change`. */
  marks: number[];
  /** `xmin` of the catalog row of the history trigger. */
  triggerXmin: number;
}

/** `pg_current_snapshot()`. */
interface Snapshot {
  readonly xmin: number;
  readonly xmax: number;
  readonly xip: readonly number[];
}

interface Kept {
  readonly list: readonly number[];
  readonly transactions: Snapshot;
  readonly lives: readonly string[];
  readonly witness: string;
  readonly isOld?: true;
}

/** A request between its key check and its response. */
interface ListRequest {
  readonly life: string | null;
  readonly transactions: Snapshot;
  /** The stock of each moment since the key check. */
  readonly moments: string[];
}

interface Process {
  kept: Kept | null;
  requests: ListRequest[];
}

export interface State {
  database: Database;
  /** The part of the log that is on the disk: a crash loses the rest. */
  flushed: Database;
  isStandby: boolean;
  /** The number in `server_life_token`; null when the table is empty. */
  token: number | null;
  lastToken: number;
  /** The number of times that the statistics were reset. */
  statsReset: number;
  /** The names of the server's life that open sessions keep. The pooler gives a statement any session. */
  sessions: string[];
  processes: Process[];
  /** The number of transactions so far, and of faults. */
  written: number;
  faults: number;
  wrong?: string;
}

const LIST = ['process 1: #checkAll', 'process 1: #read'] as const;
const REUSE = ['process 1: #checkAll', 'process 1: at'] as const;
const T1 = 'T1: record_stock_change pet 1';
const T2 = 'T2: record_stock_change pet 2';

/** Each mistake, with the shortest order of steps that makes a list wrong, and that list. */
export const MISTAKES = {
  '> stands in place of >=': { order: [T1, ...LIST, 'T1: COMMIT', ...LIST], list: '0,0' },
  'running transactions are ignored': { order: [T1, T2, 'T2: COMMIT', ...LIST, 'T1: COMMIT', ...LIST], list: '0,2' },
  'pruning takes the newest row of a pet': {
    order: [T1, ...LIST, 'T1: COMMIT', 'pruneBefore', ...LIST],
    list: '0,0',
  },
  'a replicated change leaves no mark': {
    order: ['T1: mark_unrecorded_change pet 1', ...LIST, 'T1: COMMIT', ...LIST],
    list: '0,0',
  },
  'a list is patched at any age': {
    order: ['T1: mark_unrecorded_change pet 1', ...LIST, 'T1: COMMIT', 'a day passes', ...LIST],
    list: '0,0',
  },
  'the witness has no xmin': { order: ['T1: DISABLE TRIGGER pet 1', ...LIST, 'T1: COMMIT', ...LIST], list: '0,0' },
  'the witness has no stats_reset': {
    order: [T1, 'T1: COMMIT', ...LIST, 'crash, token kept', ...LIST],
    list: '1,0',
  },
  'the life has no stats_reset': {
    order: [T1, 'flush', 'T1: COMMIT', ...LIST, 'crash, token kept', ...REUSE],
    list: '1,0',
  },
  'the life has no token': { order: [T1, 'T1: COMMIT', ...LIST, 'pg_promote', ...LIST], list: '1,0' },
  'a standby has a life': { order: [T1, T2, 'T2: COMMIT', ...LIST, 'T1: COMMIT', ...LIST], list: '0,2' },
} as const;
export type Mistake = keyof typeof MISTAKES;

/**
 * @param mistake is planted
 * @param processes how many there are
 * @param openRequests how many requests they may have at a time
 */
export function keptList(mistake?: Mistake, processes = 2, openRequests = 1): Model<State> {
  const has = (one: Mistake) => one === mistake;

  /** A standby prints no more of the running transactions than the lowest one. */
  function currentSnapshot({ database, isStandby }: State): Snapshot {
    const xmax = database.lastEnded + 1;
    const running = database.writers.map(({ id }) => id).filter((id) => id < xmax);
    return { xmin: Math.min(xmax, ...running), xmax, xip: isStandby ? [] : running };
  }

  /** How `CHANGES` finds the rows that a snapshot does not show. */
  function isChangedSince({ xmax, xip }: Snapshot, id: number): boolean {
    if (xip.includes(id)) return !has('running transactions are ignored');
    return has('> stands in place of >=') ? id > xmax : id >= xmax;
  }

  function serverLife({ token, isStandby }: State): string | null {
    if ((isStandby && !has('a standby has a life')) || token === null) return null;
    return has('the life has no token') ? 'the only' : `token ${token}`;
  }

  /** Makes the token if there is none. */
  function presentServerLife(next: State): string | null {
    if (!next.isStandby) next.token ??= ++next.lastToken;
    const life = serverLife(next);
    return life === null || has('the life has no stats_reset') ? life : `${life} ${next.statsReset}`;
  }

  function stockWitness(state: State, life: string): string | null {
    const present = serverLife(state);
    if (present === null || !`${life} `.startsWith(`${present} `)) return null;
    const statsReset = has('the witness has no stats_reset') ? '' : state.statsReset;
    return `${present} ${statsReset} ${has('the witness has no xmin') ? '' : state.database.triggerXmin}`;
  }

  /** `KeyCheck.#checkAll`. @param life the name that the session keeps */
  function checkAll(next: State, process: Process, life = presentServerLife(next)): void {
    if (life !== null && !next.sessions.includes(life)) next.sessions.push(life);
    process.requests.push({ life, transactions: currentSnapshot(next), moments: [String(next.database.stock)] });
  }

  /** `ListCache.#keptAt`. */
  function keptAt({ kept }: Process, { life, transactions }: ListRequest): readonly number[] | undefined {
    const isKept = kept && life !== null && kept.lives.includes(life) && isSame(kept.transactions, transactions);
    return isKept ? kept.list : undefined;
  }

  /** `ListCache.#read`: one statement, `CHANGES`. */
  function read(next: State, process: Process, { life }: ListRequest): readonly number[] {
    const { kept } = process;
    const { stock, history, marks } = next.database;
    const since = kept?.transactions;
    if (!kept || !since || life === null || (kept.isOld && !has('a list is patched at any age')))
      return readWhole(next, process, life);
    const isRecorded = !marks.some((id) => isChangedSince(since, id));
    const witness = isRecorded ? stockWitness(next, life) : null;
    if (witness !== kept.witness) return readWhole(next, process, life);
    const list = kept.list.map(
      (quantity, pet) => (history[pet]?.some((id) => isChangedSince(since, id)) ? stock[pet] : quantity) ?? 0,
    );
    process.kept = {
      list,
      transactions: currentSnapshot(next),
      witness,
      lives: [...new Set([...kept.lives, life])].sort(),
    };
    return list;
  }

  /** `ListCache.#readWhole`: of one moment, for it is REPEATABLE READ. */
  function readWhole(next: State, process: Process, life: string | null): readonly number[] {
    const witness = life === null ? null : stockWitness(next, life);
    const list = next.database.stock;
    process.kept =
      life === null || witness === null ? null : { list, transactions: currentSnapshot(next), lives: [life], witness };
    return list;
  }

  function* ofProcesses(state: State): Generator<Step<State>> {
    const open = state.processes.flatMap(({ requests }) => requests).length;
    for (const [place, process] of state.processes.entries()) {
      const name = `process ${place + 1}`;
      const by = (act: (next: State, process: Process) => void) => (next: State) =>
        act(next, nth(next.processes, place));
      if (open < openRequests) {
        yield [`${name}: #checkAll`, by(checkAll)];
        for (const life of state.sessions)
          if (life !== presentServerLife({ ...state }))
            yield [`${name}: #checkAll in an older session`, by((next, process) => checkAll(next, process, life))];
      }
      for (const [number, request] of process.requests.entries()) {
        const kept = keptAt(process, request);
        yield [
          `${name}: ${kept ? 'at' : '#read'}`,
          by((next, process) => {
            process.requests.splice(number, 1);
            const list = String(kept ?? read(next, process, request));
            if (!request.moments.includes(list)) next.wrong = `the list ${list} is of no moment of its request`;
          }),
        ];
      }
    }
  }

  function* ofTransactions(state: State): Generator<Step<State>> {
    const { database, written } = state;
    const n = written + 1;
    const isLocked = (pet: number) => database.writers.some((writer) => writer.pet === pet);
    // The first writes pet 1, because the pets are alike.
    for (const pet of written === 0 ? [0] : PETS) {
      if (n > TRANSACTIONS || isLocked(pet)) continue;
      for (const recordedBy of ['record_stock_change', 'mark_unrecorded_change', 'DISABLE TRIGGER'] as const) {
        const isFault = recordedBy !== 'record_stock_change';
        if (isFault && state.faults === FAULTS) continue;
        yield [
          `T${n}: ${recordedBy} pet ${pet + 1}`,
          (next) => {
            next.database.writers.push({ n, id: next.database.nextId++, pet, recordedBy });
            next.written++;
            if (isFault) next.faults++;
          },
        ];
      }
    }
    for (const [at, { n }] of database.writers.entries()) {
      yield [`T${n}: COMMIT`, (next) => commit(next, at)];
      yield [`T${n}: ROLLBACK`, (next) => end(next.database, at)];
    }
  }

  function end(database: Database, at: number): void {
    database.lastEnded = Math.max(database.lastEnded, nth(database.writers, at).id);
    database.writers.splice(at, 1);
  }

  function commit(next: State, at: number): void {
    const { database } = next;
    const { n, id, pet, recordedBy } = nth(database.writers, at);
    end(database, at);
    database.stock[pet] = n;
    if (recordedBy === 'record_stock_change') database.history[pet]?.push(id);
    else if (recordedBy === 'DISABLE TRIGGER') database.triggerXmin = id;
    else if (!has('a replicated change leaves no mark')) database.marks.push(id);
    noteMoment(next);
  }

  function* ofServer(state: State): Generator<Step<State>> {
    const { database, isStandby, statsReset, token } = state;
    const keptRows = has('pruning takes the newest row of a pet') ? 0 : 1;
    yield [
      'pruneBefore',
      ({ database }) => {
        database.history = database.history.map((rows) => rows.slice(Math.max(0, rows.length - keptRows)));
      },
    ];
    if (database.marks.length > 0)
      yield [
        'a day passes',
        (next) => {
          next.database.marks = [];
          for (const process of next.processes) if (process.kept) process.kept = { ...process.kept, isOld: true };
        },
      ];
    if (state.faults === FAULTS) return;
    if (!isStandby) {
      yield ['flush', (next) => (next.flushed = next.database)];
      for (const what of token === null ? ['lost'] : ['lost', 'kept'])
        yield [
          `crash, token ${what}`,
          (next) => {
            recover(next, next.flushed);
            next.statsReset++;
            if (what === 'lost') next.token = null;
          },
        ];
      if (statsReset === 0)
        yield [
          'pg_stat_reset_shared',
          (next) => {
            next.statsReset++;
            next.faults++;
          },
        ];
    }
    yield [
      'pg_promote',
      (next) => {
        recover(next, isStandby ? next.database : next.flushed);
        next.isStandby = false;
        next.token = null;
      },
    ];
  }

  /** Sessions and open transactions are gone. Ids that are not on the disk are given again. */
  function recover(next: State, database: Database): void {
    next.database = { ...database, writers: [], lastEnded: database.nextId - 1 };
    next.flushed = next.database;
    next.sessions = [];
    next.faults++;
    noteMoment(next);
  }

  const empty: Database = {
    stock: [0, 0],
    writers: [],
    nextId: 1,
    lastEnded: 0,
    history: [[], []],
    marks: [],
    triggerXmin: 0,
  };
  const primary: State = {
    ...{ database: empty, flushed: empty, isStandby: false, token: 1, lastToken: 1, statsReset: 0, sessions: [] },
    processes: Array.from({ length: processes }, () => ({ kept: null, requests: [] })),
    ...{ written: 0, faults: 0 },
  };
  return {
    initial: [primary, { ...primary, isStandby: true }],
    *steps(state) {
      yield* ofTransactions(state);
      yield* ofServer(state);
      yield* ofProcesses(state);
    },
    violation: ({ wrong }) => wrong,
    key({ processes, database, flushed, ...state }) {
      const alike = processes
        .map(({ kept, requests }) => JSON.stringify([kept && Object.values(kept), requests]))
        .sort();
      const stored = state.faults < FAULTS ? [database, flushed] : [database];
      return JSON.stringify([Object.values(state), stored.map(Object.values), alike]);
    },
  };
}

function noteMoment({ database, processes }: State): void {
  const stock = String(database.stock);
  for (const { moments } of processes.flatMap(({ requests }) => requests))
    if (!moments.includes(stock)) moments.push(stock);
}

function isSame(one: Snapshot, other: Snapshot): boolean {
  return one.xmin === other.xmin && one.xmax === other.xmax && String(one.xip) === String(other.xip);
}
