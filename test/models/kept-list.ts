import { type Model, type Step, nth } from './explorer.ts';

/**
 * The kept list as a model: docs/decisions/kept-list.md has the proof. There are two pets, three transactions, and two
 * processes behind a pooler. A step has the name of the function or the statement that takes it.
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
  readonly recordedBy: 'record_stock_change' | 'mark_unrecorded_change' | 'DISABLE TRIGGER' | 'nobody';
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
  readonly life: string;
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
  /** A reading whose statement has its snapshot: {@link Process.kept} will be `next`. */
  reading?: {
    readonly request: ListRequest;
    readonly list: readonly number[];
    readonly next: Kept | null;
    isVoid?: true;
  };
  /** The list that is to be audited, and what the audit's snapshot shows. */
  audit?: { readonly kept: Kept; readonly seen?: State };
  /** A change was recorded by nobody, and no audit has ended that saw it. */
  isMisled?: true;
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
  audits: number;
  isHidden?: true;
  wrong?: string;
}

const LIST = ['process 1: #checkAll', 'process 1: #read'] as const;
const REUSE = ['process 1: #checkAll', 'process 1: listAt'] as const;
const T1 = 'T1: record_stock_change pet 1';
const T2 = 'T2: record_stock_change pet 2';

/** Each mistake, with an order of steps that makes a list wrong, and that list. */
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
/** Each mistake of an audit, with an order in which it does harm, and that harm. */
export const AUDIT_MISTAKES = {
  'an audit takes the kept list after its snapshot': {
    order: [
      T1,
      ...LIST,
      'process 1: comparison',
      'process 1: audit',
      'T1: COMMIT',
      ...LIST,
      'process 1: the audit ends',
    ],
    harm: 'an audit finds a difference that nobody made',
  },
  'a reading of the replaced list is kept': {
    order: [
      'T1: nobody pet 1',
      ...LIST,
      'T1: COMMIT',
      'process 1: #checkAll',
      'process 1: comparison',
      'process 1: #read is sent',
      'process 1: audit',
      'process 1: the audit ends',
      'process 1: #read ends',
    ],
    harm: 'the list 0,0 is of no moment of its request',
  },
} as const;
export type Mistake = keyof typeof MISTAKES | keyof typeof AUDIT_MISTAKES;

/**
 * @param mistake is planted
 * @param audits how many there may be. With them, the only fault is a change that is recorded by nobody
 * @param processes how many there are
 * @param openRequests how many requests they may have at a time
 */
export function keptList(mistake?: Mistake, processes = 2, openRequests = 1, audits = 0): Model<State> {
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
    const isKept = kept && life !== null && kept.life === life && isSame(kept.transactions, transactions);
    return isKept ? kept.list : undefined;
  }

  interface Reading {
    readonly list: readonly number[];
    /** What is kept then. */
    readonly next: Kept | null;
  }

  /** `ListCache.#read`: one statement, `CHANGES`. */
  function read(state: State, kept: Kept | null, { life }: Pick<ListRequest, 'life'>): Reading {
    if (!kept || life === null || (kept.isOld && !has('a list is patched at any age'))) return readWhole(state, life);
    const next = patched(state, kept, life);
    return next ? { list: next.list, next } : readWhole(state, life);
  }

  function patched(state: State, kept: Kept, life: string): Kept | undefined {
    const { stock, history, marks } = state.database;
    const { transactions: since } = kept;
    const isRecorded = !marks.some((id) => isChangedSince(since, id));
    const witness = isRecorded ? stockWitness(state, life) : null;
    if (witness !== kept.witness) return undefined;
    const list = kept.list.map(
      (quantity, pet) => (history[pet]?.some((id) => isChangedSince(since, id)) ? stock[pet] : quantity) ?? 0,
    );
    return { list, transactions: currentSnapshot(state), witness, life };
  }

  /** `ListCache.#readWhole`: of one moment, for it is REPEATABLE READ. */
  function readWhole(state: State, life: string | null): Reading {
    const witness = life === null ? null : stockWitness(state, life);
    const list = state.database.stock;
    const isKept = life !== null && witness !== null;
    return { list, next: isKept ? { list, transactions: currentSnapshot(state), life, witness } : null };
  }

  function respond(next: State, { isMisled }: Process, list: readonly number[], { moments }: ListRequest): void {
    if (!isMisled && !moments.includes(String(list)))
      next.wrong = `the list ${String(list)} is of no moment of its request`;
  }

  /** `ListCache.comparison`. A wrong list is replaced, and a reading that began from it is void. */
  function endAudit(next: State, process: Process): void {
    const { kept: taken, seen } = process.audit ?? {};
    delete process.audit;
    const kept = has('an audit takes the kept list after its snapshot') ? process.kept : taken;
    const expected = seen && kept && patched(seen, kept, kept.life);
    if (!expected) return;
    const { stock } = seen.database;
    if (String(expected.list) !== String(stock)) {
      if (!next.isHidden) next.wrong = 'an audit finds a difference that nobody made';
      process.kept = { ...expected, list: stock };
      if (process.reading && !has('a reading of the replaced list is kept')) process.reading.isVoid = true;
    }
    if (seen.isHidden) delete process.isMisled;
  }

  const ways: readonly Writer['recordedBy'][] =
    audits > 0
      ? ['record_stock_change', 'nobody']
      : ['record_stock_change', 'mark_unrecorded_change', 'DISABLE TRIGGER'];

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
        if (!kept && process.reading) continue;
        yield [
          `${name}: ${kept ? 'listAt' : '#read'}`,
          by((next, process) => {
            process.requests.splice(number, 1);
            const reading = kept ? { list: kept, next: process.kept } : read(next, process.kept, request);
            process.kept = reading.next;
            respond(next, process, reading.list, request);
          }),
        ];
        if (!kept && process.audit)
          yield [
            `${name}: #read is sent`,
            by((next, process) => {
              process.requests.splice(number, 1);
              process.reading = { request, ...read(next, process.kept, request) };
            }),
          ];
      }
      if (process.reading)
        yield [
          `${name}: #read ends`,
          by((next, process) => {
            if (!process.reading) return;
            const { request, isVoid, ...sent } = process.reading;
            delete process.reading;
            const reading = isVoid ? read(next, process.kept, request) : sent;
            process.kept = reading.next;
            respond(next, process, reading.list, request);
          }),
        ];
      if (!process.audit && state.audits < audits && process.kept) {
        const { kept } = process;
        yield [
          `${name}: comparison`,
          (next) => {
            next.audits++;
            nth(next.processes, place).audit = { kept };
          },
        ];
      } else if (process.audit && !process.audit.seen)
        yield [
          `${name}: audit`,
          (next) => {
            const auditing = nth(next.processes, place);
            const seen = { ...next, flushed: next.database, processes: [] };
            if (auditing.audit) auditing.audit = { ...auditing.audit, seen };
          },
        ];
      else if (process.audit) yield [`${name}: the audit ends`, by(endAudit)];
    }
  }

  function* ofTransactions(state: State): Generator<Step<State>> {
    const { database, written } = state;
    const n = written + 1;
    const isLocked = (pet: number) => database.writers.some((writer) => writer.pet === pet);
    // The first writes pet 1, because the pets are alike.
    for (const pet of written === 0 ? [0] : PETS) {
      if (n > TRANSACTIONS || isLocked(pet)) continue;
      for (const recordedBy of ways) {
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
    if (recordedBy === 'nobody') {
      next.isHidden = true;
      for (const process of next.processes) process.isMisled = true;
    } else if (recordedBy === 'record_stock_change') database.history[pet]?.push(id);
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
    if (state.faults === FAULTS || audits > 0) return;
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
    ...{ written: 0, faults: 0, audits: 0 },
  };
  return {
    initial: audits > 0 ? [primary] : [primary, { ...primary, isStandby: true }],
    *steps(state) {
      yield* ofTransactions(state);
      yield* ofServer(state);
      yield* ofProcesses(state);
    },
    violation: ({ wrong }) => wrong,
    key({ processes, database, flushed, ...state }) {
      const alike = processes
        .map(({ kept, requests, reading, audit, isMisled }) =>
          JSON.stringify([kept && Object.values(kept), requests, reading, audit, isMisled]),
        )
        .sort();
      const stored = state.faults < FAULTS ? [database, flushed] : [database];
      return JSON.stringify([Object.values(state), stored.map(Object.values), alike]);
    },
  };
}

function noteMoment({ database, processes }: State): void {
  const stock = String(database.stock);
  const open = processes.flatMap(({ requests, reading }) => (reading ? [...requests, reading.request] : requests));
  for (const { moments } of open) if (!moments.includes(stock)) moments.push(stock);
}

function isSame(one: Snapshot, other: Snapshot): boolean {
  return one.xmin === other.xmin && one.xmax === other.xmax && String(one.xip) === String(other.xip);
}
