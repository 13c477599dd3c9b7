import type { Answer } from '../../test/support/http-client.ts';
import { listAfter } from './answer-rules.ts';
import type { Exchange, List, Update } from './exchange.ts';
import type { FinalState } from './final-state.ts';

/**
 * Judges what many clients saw of one store: each pet alone is linearizable, and any two lists agree. Porcupine decides
 * more, but only for a few clients: `docs/guarantees.md`.
 */
export class Linearizability {
  private readonly initial: ReadonlyMap<number, number>;
  private readonly pets = new Map<number, RegisterHistory>();
  private readonly lists: Int32Array[] = [];

  /** @param initial each pet's quantity before the first request, in ascending order of pets */
  constructor(initial: ReadonlyMap<number, number>) {
    this.initial = initial;
    for (const [petId, quantity] of initial) this.pets.set(petId, new RegisterHistory(quantity));
  }

  /** @param end as {@link RegisterHistory.write} */
  addUpdate({ petId, quantity }: Update, start: number, end: number): void {
    this.pets.get(petId)?.write(quantity, start, end);
  }

  /** @returns what is wrong with the list by itself */
  addList({ start, end }: Exchange, operation: List, answer: Answer): string | undefined {
    const body = listAfter(operation, answer);
    if (body === undefined) return undefined;
    const items = JSON.parse(body) as { petId: number; quantity: number; status: string }[];
    const moment = new Int32Array(this.initial.size);
    let index = 0;
    for (const [petId, pet] of this.pets) {
      const item = items[index];
      if (item?.petId !== petId || item.status !== 'available') {
        return `has ${JSON.stringify(item)} where pet ${petId} belongs`;
      }
      pet.read(item.quantity, start, end);
      moment[index++] = item.quantity;
    }
    if (answer.status === 200) this.lists.push(moment); // the list of a 304 is already in `lists`
    return items.length === index ? undefined : `has ${items.length} items`;
  }

  /** @returns a sentence for each contradiction to the order that the history has */
  violations(state: FinalState): string[] {
    const found: string[] = [];
    for (const [petId, first] of this.initial) {
      const pet = this.pets.get(petId);
      const left = state.quantities.get(petId);
      if (left !== undefined) pet?.read(left, state.readStart, state.readEnd);
      const order = [first, ...(state.changes.get(petId) ?? []).map(({ after }) => after)];
      for (const sentence of pet?.violations(order) ?? []) found.push(`pet ${petId}: ${sentence}`);
    }
    return [...found, ...disagreeingLists(this.lists, this.initial, state)];
  }
}

/** When the operations on one value took place, as their clients saw it. */
interface Span {
  writeStart: number;
  firstReadEnd: number;
  /** Of the write and every read: the latest start and the earliest end. */
  lastStart: number;
  firstEnd: number;
}

/**
 * What clients saw of one register, each of whose writes has a value of its own. It is linearizable when each operation
 * can be given an instant between its start and its end, so that each read returns the latest write. The order of the
 * writes is known, so it is enough that no operation began after one of a later value had ended.
 */
class RegisterHistory {
  private readonly spans = new Map<number, Span>();

  constructor(initial: number) {
    this.write(initial, -Infinity, -Infinity);
  }

  /** @param end monotonic milliseconds, as `start`; Infinity when nobody knows whether the write took place */
  write(value: number, start: number, end: number): void {
    this.spanOf(value).writeStart = start;
    this.add(value, start, end);
  }

  /** Adds a read, which may come before its write does. */
  read(value: number, start: number, end: number): void {
    const span = this.spanOf(value);
    span.firstReadEnd = Math.min(span.firstReadEnd, end);
    this.add(value, start, end);
  }

  /**
   * @param order every value that the register had, the first one first
   * @returns a sentence for each value that contradicts the order
   */
  violations(order: readonly number[]): string[] {
    const found: string[] = [];
    const held = new Set(order);
    for (const [value, { firstReadEnd }] of this.spans) {
      if (firstReadEnd < Infinity && !held.has(value)) found.push(`${value} was read, but the store never had it`);
    }
    let later = { value: NaN, end: Infinity };
    for (const value of order.toReversed()) {
      const { writeStart, firstReadEnd, lastStart, firstEnd } = this.spanOf(value);
      if (firstReadEnd < writeStart) found.push(`${value} was read before its write began`);
      if (later.end < lastStart) {
        found.push(`${value} was held at ${at(lastStart)}, but ${later.value} followed it by ${at(later.end)}`);
      }
      if (firstEnd < later.end) later = { value, end: firstEnd };
    }
    return found;
  }

  private add(value: number, start: number, end: number): void {
    const span = this.spanOf(value);
    span.lastStart = Math.max(span.lastStart, start);
    span.firstEnd = Math.min(span.firstEnd, end);
  }

  private spanOf(value: number): Span {
    const never = { writeStart: -Infinity, firstReadEnd: Infinity, lastStart: -Infinity, firstEnd: Infinity };
    const span = this.spans.get(value) ?? never;
    this.spans.set(value, span);
    return span;
  }
}

/**
 * Lists are moments of one store, so of any two one is at least as new in every pet. The history shows how new each
 * quantity is; `lists` have them in the order of `initial`.
 */
function disagreeingLists(
  lists: readonly Int32Array[],
  initial: ReadonlyMap<number, number>,
  state: FinalState,
): string[] {
  const ages = new Map<number, number>();
  for (const quantity of initial.values()) ages.set(quantity, 0);
  for (const changes of state.changes.values()) changes.forEach(({ after }, index) => ages.set(after, index + 1));
  const moments = lists.map((list) => {
    const ageOfEach = list.map((quantity) => ages.get(quantity) ?? -1);
    return { list, ageOfEach, age: ageOfEach.reduce((sum, each) => sum + each, 0) };
  });
  moments.sort((one, other) => one.age - other.age);
  const petIds = [...initial.keys()];
  const found: string[] = [];
  for (const [at, { list, ageOfEach }] of moments.entries()) {
    const previous = moments[at - 1];
    const older = ageOfEach.findIndex((age, pet) => age < (previous?.ageOfEach[pet] ?? -1));
    if (older < 0) continue;
    const quantities = [previous?.list[older], list[older]].join(' and ');
    found.push(`two lists are no moments of one store: pet ${String(petIds[older])} has ${quantities}`);
  }
  return found;
}

function at(time: number): string {
  return `${time.toFixed(1)} ms`;
}
