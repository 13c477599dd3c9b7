import { ConnectionLost } from '../../test/support/http-client.ts';
import { brokenRules, codeOf, resultOf } from './answer-rules.ts';
import type { Exchange, Update } from './exchange.ts';
import { brokenHistory, lostUpdates, type Accepted, type FinalState } from './final-state.ts';
import type { Linearizability } from './linearizability.ts';

const EXAMPLES = 8;
const CONNECTION_LOST = 'connection lost';

/** Judges each exchange by the promises of the interface, and at the end the history of the store by the responses. */
export class Evidence {
  readonly answerWithinMs: number;
  private readonly initial: ReadonlyMap<number, number>;
  private readonly linearizability: Linearizability | undefined;
  private readonly accepted = new Map<number, Accepted>();
  private readonly counts = new Map<string, number>();
  private sentences: string[] = [];
  slowestMs = 0;
  requests = 0;
  /** The number of acknowledged updates, and of updates with an unknown outcome. */
  done = 0;
  unknown = 0;

  /**
   * @param initial each pet's quantity before the first request, in ascending order of pets
   * @param linearizability undefined if Porcupine judges the run instead
   */
  constructor(
    initial: ReadonlyMap<number, number>,
    answerWithinMs: number,
    linearizability: Linearizability | undefined,
  ) {
    this.initial = initial;
    this.answerWithinMs = answerWithinMs;
    this.linearizability = linearizability;
  }

  add(exchange: Exchange): void {
    const { operation, outcome } = exchange;
    this.requests++;
    this.slowestMs = Math.max(this.slowestMs, exchange.end - exchange.start);
    for (const sentence of brokenRules(exchange, this.answerWithinMs)) this.accuse(exchange, sentence);
    const kind =
      outcome instanceof ConnectionLost ? CONNECTION_LOST : `${outcome.status} ${codeOf(outcome) ?? ''}`.trim();
    this.counts.set(kind, this.answered(kind) + 1);
    if (exchange.repeated?.again) return; // the last attempt stands for the whole request
    if (operation.kind === 'update') this.addUpdate(exchange, operation);
    else if (!(outcome instanceof ConnectionLost)) {
      const fault = this.linearizability?.addList(exchange, operation, outcome);
      if (fault !== undefined) this.accuse(exchange, fault);
    }
  }

  /** Judges the whole, once no request is in flight. */
  conclude(state: FinalState): void {
    for (const [petId, first] of this.initial) {
      this.sentences.push(...brokenHistory(petId, first, state, this.accepted));
    }
    const contradictions = this.linearizability?.violations(state) ?? [];
    this.sentences = [...this.sentences, ...lostUpdates(state, this.accepted), ...contradictions];
  }

  get violations(): number {
    return this.sentences.length;
  }

  /** The first few violations, in words. */
  get examples(): string[] {
    return this.sentences.slice(0, EXAMPLES);
  }

  violationsWith(words: string): number {
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
    this.linearizability?.addUpdate(update, repeated?.since ?? start, result === 'done' ? end : Infinity);
    if (result === 'refused') return;
    this[result]++;
    this.accepted.set(update.quantity, { update, outcome: result });
  }

  private accuse({ target, operation, start, end }: Exchange, what: string): void {
    const request = operation.kind === 'list' ? 'GET list' : `PATCH pet ${operation.petId} := ${operation.quantity}`;
    this.sentences.push(`${target.name}, ${request}, sent ${start.toFixed(1)}, ended ${end.toFixed(1)}: ${what}`);
  }
}
