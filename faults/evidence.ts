import { brokenRules, codeOf, listAfter, resultOf } from './answer-rules.ts';
import type { Exchange, List, Update } from './exchange.ts';
import { brokenHistory, disagreeingLists, lostUpdates, type Accepted, type FinalState } from './final-state.ts';
import { ConnectionLost, type Answer } from '../test/support/http-client.ts';
import { RegisterHistory } from './linearizability.ts';

const EXAMPLES = 8;
const CONNECTION_LOST = 'connection lost';

/**
 * Judges each exchange by the promises of the interface. For the verdict at the end it keeps a register history of each
 * pet, and the lists as moments of the store.
 */
export class Evidence {
  readonly answerWithinMs: number;
  private readonly initial: ReadonlyMap<number, number>;
  private readonly histories = new Map<number, RegisterHistory>();
  private readonly accepted = new Map<number, Accepted>();
  private readonly lists: Int32Array[] = [];
  private readonly counts = new Map<string, number>();
  private sentences: string[] = [];
  slowestMs = 0;
  requests = 0;
  /** The number of acknowledged updates, and of updates with an unknown outcome. */
  done = 0;
  unknown = 0;

  /** @param initial each pet's quantity before the first request, in ascending order of pets */
  constructor(initial: ReadonlyMap<number, number>, answerWithinMs: number) {
    this.initial = initial;
    this.answerWithinMs = answerWithinMs;
    for (const [petId, quantity] of initial) this.histories.set(petId, new RegisterHistory(quantity));
  }

  add(exchange: Exchange): void {
    const { operation, outcome } = exchange;
    this.requests++;
    this.slowestMs = Math.max(this.slowestMs, exchange.end - exchange.start);
    for (const sentence of brokenRules(exchange, this.answerWithinMs)) this.accuse(exchange, sentence);
    const kind =
      outcome instanceof ConnectionLost ? CONNECTION_LOST : `${outcome.status} ${codeOf(outcome) ?? ''}`.trim();
    this.counts.set(kind, this.answered(kind) + 1);
    if (exchange.repeated?.again) return; // the last attempt tells about the whole request
    if (operation.kind === 'update') this.addUpdate(exchange, operation);
    else if (!(outcome instanceof ConnectionLost)) this.addList(exchange, operation, outcome);
  }

  /** Judges the whole, once no request is in flight. */
  conclude(state: FinalState): void {
    for (const [petId, first] of this.initial) {
      const history = this.histories.get(petId);
      const left = state.quantities.get(petId);
      if (left !== undefined) history?.read(left, state.readStart, state.readEnd);
      const order = [first, ...(state.changes.get(petId) ?? []).map(({ after }) => after)];
      for (const sentence of history?.violations(order) ?? []) this.sentences.push(`pet ${petId}: ${sentence}`);
      this.sentences.push(...brokenHistory(petId, first, state, this.accepted));
    }
    const lost = lostUpdates(state, this.accepted);
    this.sentences = [...this.sentences, ...lost, ...disagreeingLists(this.lists, this.initial, state)];
  }

  get violations(): number {
    return this.sentences.length;
  }

  /** The first few violations, in words. */
  get examples(): string[] {
    return this.sentences.slice(0, EXAMPLES);
  }

  broken(words: string): number {
    return this.sentences.filter((sentence) => sentence.includes(words)).length;
  }

  /** How often each kind of response came, as a text. */
  get summary(): string {
    return [...this.counts].map(([kind, count]) => `${count} × ${kind}`).join(', ');
  }

  /** @param kind a status and its code, such as `503 outcome_unknown` */
  answered(kind: string): number {
    return this.counts.get(kind) ?? 0;
  }

  get lostConnections(): number {
    return this.answered(CONNECTION_LOST);
  }

  /** Updates of unknown outcome that did take place. */
  appliedUnknown(state: FinalState): number {
    const applied = [...state.changes.values()].flat();
    return applied.filter(({ after }) => this.accepted.get(after)?.outcome === 'unknown').length;
  }

  private addUpdate({ outcome, start, end, repeated }: Exchange, update: Update): void {
    const result = resultOf(outcome);
    this.histories
      .get(update.petId)
      ?.write(update.quantity, repeated?.since ?? start, result === 'done' ? end : Infinity);
    if (result === 'refused') return;
    this[result]++;
    this.accepted.set(update.quantity, { update, outcome: result });
  }

  private addList(exchange: Exchange, operation: List, answer: Answer): void {
    const body = listAfter(operation, answer);
    if (body === undefined) return;
    const items = JSON.parse(body) as { petId: number; quantity: number; status: string }[];
    const moment = new Int32Array(this.initial.size);
    let index = 0;
    for (const petId of this.initial.keys()) {
      const item = items[index];
      if (item?.petId !== petId || item.status !== 'available') {
        this.accuse(exchange, `has ${JSON.stringify(item)} where pet ${petId} belongs`);
        return;
      }
      this.histories.get(petId)?.read(item.quantity, exchange.start, exchange.end);
      moment[index++] = item.quantity;
    }
    if (items.length !== index) this.accuse(exchange, `has ${items.length} items`);
    if (answer.status === 200) this.lists.push(moment); // the list of a 304 is already in `lists`
  }

  private accuse({ target, operation, start, end }: Exchange, what: string): void {
    const request = operation.kind === 'list' ? 'GET list' : `PATCH pet ${operation.petId} := ${operation.quantity}`;
    this.sentences.push(`${target.name}, ${request}, sent ${start.toFixed(1)}, ended ${end.toFixed(1)}: ${what}`);
  }
}
