import { ConnectionLost, type HttpAnswer } from './http-connection.ts';
import { RegisterHistory } from './linearizability.ts';
import type { Exchange, List, Update } from './load.ts';

/** What the database holds once all is quiet. */
export interface FinalState {
  readonly readStart: number;
  readonly readEnd: number;
  readonly quantities: ReadonlyMap<number, number>;
  /** Each pet's changes in order, without the row of its import. */
  readonly changes: ReadonlyMap<number, readonly Change[]>;
}

export interface Change {
  readonly before: number;
  readonly after: number;
  readonly requestId: string | null;
}

interface Item {
  readonly petId: number;
  readonly quantity: number;
  readonly status: string;
}

const UNAVAILABLE_CODES = ['service_unavailable', 'outcome_unknown'];

/**
 * Judges every exchange as it comes, by what the interface promises of each answer, and keeps what is needed to judge
 * the whole at the end: per pet a register history, and the lists as moments of the store.
 */
export class Evidence {
  private readonly histories = new Map<number, RegisterHistory>();
  private readonly updates = new Map<number, { readonly update: Update; readonly outcome: 'done' | 'unknown' }>();
  private readonly lists: Int32Array[] = [];
  private readonly counts = new Map<string, number>();
  private readonly shown: string[] = [];
  /** Broken promises; the first ones are kept as {@link examples}. */
  violations = 0;
  slowestMs = 0;
  requests = 0;
  lostConnections = 0;
  lostUpdates = 0;

  private readonly initial: ReadonlyMap<number, number>;
  private readonly answerWithinMs: number;

  /** @param initial each pet's quantity before the first request, in ascending order of pets */
  constructor(initial: ReadonlyMap<number, number>, answerWithinMs: number) {
    this.initial = initial;
    this.answerWithinMs = answerWithinMs;
    for (const [petId, quantity] of initial) this.histories.set(petId, new RegisterHistory(quantity));
  }

  add(exchange: Exchange): void {
    const { operation, outcome, start, end, target } = exchange;
    this.requests++;
    this.slowestMs = Math.max(this.slowestMs, end - start);
    if (end - start > this.answerWithinMs) this.accuse(exchange, `took ${(end - start).toFixed(0)} ms`);
    if (outcome instanceof ConnectionLost) {
      this.lostConnections++;
      this.count('connection lost');
      if (exchange.connectedAt > target.killedAt) this.accuse(exchange, outcome.message);
    } else {
      const code = outcome.status >= 400 ? ` ${this.judgeError(exchange, outcome)}` : '';
      this.count(`${outcome.status}${code}`);
    }
    if (operation.kind === 'update') this.addUpdate(exchange, operation);
    else if (!(outcome instanceof ConnectionLost)) this.addList(exchange, operation, outcome);
  }

  /** The last word, once no request is in flight. */
  conclude(state: FinalState): void {
    for (const [petId, history] of this.histories) {
      const left = state.quantities.get(petId);
      if (left === undefined) this.report(`pet ${petId} is gone`);
      else history.read(left, state.readStart, state.readEnd);
      for (const sentence of history.violations()) this.report(`pet ${petId}: ${sentence}`);
      this.compareChanges(petId, state.changes.get(petId) ?? [], left);
    }
    this.missingFrom(state);
    this.orderLists(state);
  }

  report(sentence: string): void {
    this.violations++;
    if (this.shown.length < 8) this.shown.push(sentence);
  }

  get examples(): readonly string[] {
    return this.shown;
  }

  /** How often each kind of answer came, for people. */
  get summary(): string {
    return [...this.counts].map(([kind, count]) => `${count} × ${kind}`).join(', ');
  }

  answered(kind: string): number {
    return this.counts.get(kind) ?? 0;
  }

  /** Updates of unknown outcome that did take place. */
  appliedUnknown(state: FinalState): number {
    const applied = [...state.changes.values()].flat().map((change) => this.updates.get(change.after)?.outcome);
    return applied.filter((outcome) => outcome === 'unknown').length;
  }

  private addUpdate(exchange: Exchange, update: Update): void {
    const { outcome, start, end } = exchange;
    const history = this.histories.get(update.petId);
    const status = outcome instanceof ConnectionLost ? undefined : outcome.status;
    const isUnknown = outcome instanceof ConnectionLost || codeOf(outcome) === 'outcome_unknown' || status === 500;
    const result = status === 200 ? 'done' : isUnknown ? 'unknown' : 'refused';
    history?.write(update.quantity, start, end, result);
    if (result !== 'refused') this.updates.set(update.quantity, { update, outcome: result });
    if (outcome instanceof ConnectionLost || status !== 200) return;
    const expected: Item = { petId: update.petId, quantity: update.quantity, status: 'available' };
    if (outcome.body !== JSON.stringify(expected)) this.accuse(exchange, `answered ${outcome.body}`);
  }

  private addList(exchange: Exchange, { known }: List, answer: HttpAnswer): void {
    if (answer.status === 304 && !known) this.accuse(exchange, 'was 304 to a request without If-None-Match');
    const body = answer.status === 200 ? answer.body : answer.status === 304 ? known?.body : undefined;
    if (body === undefined) return;
    const items = JSON.parse(body) as Item[];
    const moment = new Int32Array(this.initial.size);
    let index = 0;
    for (const petId of this.initial.keys()) {
      const item = items[index];
      if (item?.petId !== petId) {
        this.accuse(exchange, `has ${String(item?.petId)} where pet ${petId} belongs`);
        return;
      }
      this.histories.get(petId)?.read(item.quantity, exchange.start, exchange.end);
      moment[index++] = item.quantity;
    }
    if (items.length !== index) this.accuse(exchange, `has ${items.length} items`);
    if (answer.status === 200) this.lists.push(moment); // a 304 is a list that was kept before
  }

  private judgeError(exchange: Exchange, answer: HttpAnswer): string {
    const error = parse(answer.body);
    const code = typeof error['code'] === 'string' ? error['code'] : 'without code';
    const isError =
      Object.keys(error).sort().join() === 'code,message,status' &&
      error['status'] === answer.status &&
      answer.headers.get('content-type')?.startsWith('application/json');
    if (!isError) this.accuse(exchange, `answered ${answer.status} with ${answer.body.slice(0, 200)}`);
    if (answer.status === 503) {
      if (!UNAVAILABLE_CODES.includes(code)) this.accuse(exchange, `answered 503 ${code}`);
      if (!/^\d+$/.test(answer.headers.get('retry-after') ?? '')) this.accuse(exchange, '503 without Retry-After');
    } else if (answer.status !== 412) {
      this.accuse(exchange, `answered ${answer.status} ${code}: ${answer.body.slice(0, 200)}`);
    }
    return code;
  }

  /** A pet's changes lead from its first quantity to its last, and each is an update that was accepted. */
  private compareChanges(petId: number, changes: readonly Change[], left: number | undefined): void {
    let held = this.initial.get(petId);
    for (const { before, after, requestId } of changes) {
      const sent = this.updates.get(after)?.update;
      if (before !== held) this.report(`history of pet ${petId}: ${before} → ${after} follows on ${String(held)}`);
      if (sent?.petId !== petId) this.report(`history of pet ${petId}: nobody's accepted update set ${after}`);
      if (sent?.expected !== undefined && sent.expected !== before) {
        this.report(`history of pet ${petId}: ${after} asked for ${sent.expected}, but replaced ${before}`);
      }
      if (requestId !== `q${after}`)
        this.report(`history of pet ${petId}: ${after} names request ${String(requestId)}`);
      held = after;
    }
    if (held !== left) this.report(`history of pet ${petId} ends with ${String(held)}, the store has ${String(left)}`);
  }

  private missingFrom(state: FinalState): void {
    const found = new Set([...state.changes.values()].flat().map((change) => change.after));
    for (const [quantity, { update, outcome }] of this.updates) {
      if (outcome === 'done' && !found.has(quantity)) {
        this.lostUpdates++;
        this.report(`lost update: pet ${update.petId} := ${quantity} was acknowledged and has no history row`);
      }
    }
  }

  /** Lists are moments of one store, so of any two one is at least as new in every pet. */
  private orderLists(state: FinalState): void {
    const versions = new Map<number, number>();
    for (const quantity of this.initial.values()) versions.set(quantity, 0);
    for (const changes of state.changes.values()) {
      changes.forEach(({ after }, index) => versions.set(after, index + 1));
    }
    const moments = this.lists.map((list) => {
      const ages = list.map((quantity) => versions.get(quantity) ?? -1);
      return { list, ages, age: ages.reduce((sum, each) => sum + each, 0) };
    });
    moments.sort((one, other) => one.age - other.age);
    moments.forEach(({ list, ages }, at) => {
      const previous = moments[at - 1];
      const older = previous ? ages.findIndex((age, pet) => age < (previous.ages[pet] ?? 0)) : -1;
      if (previous && older >= 0) {
        const petId = [...this.initial.keys()][older];
        this.report(
          `two lists are no moments of one store: pet ${String(petId)} ${previous.list[older]} and ${list[older]}`,
        );
      }
    });
  }

  private accuse({ target, operation, start, end }: Exchange, what: string): void {
    const request = operation.kind === 'list' ? 'GET list' : `PATCH pet ${operation.petId} := ${operation.quantity}`;
    this.report(`${target.name}, ${request}, sent ${start.toFixed(1)}, ended ${end.toFixed(1)}: ${what}`);
  }

  private count(kind: string): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
  }
}

function codeOf(answer: HttpAnswer): unknown {
  return answer.status >= 400 ? parse(answer.body)['code'] : undefined;
}

function parse(body: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
