/** What can happen next: its name, and how it changes a copy of the state. */
export type Step<State> = readonly [name: string, change: (next: State) => void];

export interface Model<State> {
  readonly initial: readonly State[];
  /** The steps that are possible in a state. */
  readonly steps: (state: State) => Iterable<Step<State>>;
  /** Says what is wrong in a state; undefined if nothing is. */
  readonly violation: (state: State) => string | undefined;
  /** States with equal keys have the same future. */
  readonly key: (state: State) => string;
}

interface Exploration<State> {
  /** The number of different states. */
  readonly states: number;
  readonly violation?: { readonly what: string; readonly state: State; readonly order: readonly string[] };
}

/** The last step on the way to a state, and the way before it. */
interface Way {
  readonly step: string;
  readonly before: Way | undefined;
}

/**
 * Visits all states within so many steps, the nearest first. So it finds a violation by the shortest order of steps.
 */
export function explore<State>({ initial, steps, violation, key }: Model<State>, depth: number): Exploration<State> {
  const seen = new Set(initial.map(key));
  let reached: { state: State; way?: Way }[] = initial.map((state) => ({ state }));
  for (let at = 0; at < depth && reached.length > 0; at++) {
    const next: typeof reached = [];
    for (const { state: before, way: wayBefore } of reached) {
      for (const [step, change] of steps(before)) {
        const state = copyOf(before);
        change(state);
        const name = key(state);
        if (seen.has(name)) continue;
        seen.add(name);
        const way = { step, before: wayBefore };
        const what = violation(state);
        if (what !== undefined) return { states: seen.size, violation: { what, state, order: stepsOf(way) } };
        next.push({ state, way });
      }
    }
    reached = next;
  }
  return { states: seen.size };
}

/** What is wrong after these steps. */
export function play<State>({ initial, steps, violation }: Model<State>, order: readonly string[]): string | undefined {
  const take = (before: State | undefined, name: string): State | undefined => {
    const step = before === undefined ? undefined : [...steps(before)].find(([each]) => each === name);
    if (!step) return undefined;
    const state = copyOf(before) as State;
    step[1](state);
    return state;
  };
  const ends = initial.map((first) => order.reduce<State | undefined>(take, first));
  return ends.flatMap((state) => (state && violation(state)) ?? []).at(0);
}

function stepsOf(way: Way | undefined): string[] {
  return way ? [...stepsOf(way.before), way.step] : [];
}

/** Of plain data, much faster than `structuredClone`. */
function copyOf<Data>(data: Data): Data {
  if (typeof data !== 'object' || data === null) return data;
  if (Array.isArray(data)) return data.map(copyOf) as Data;
  const copy = { ...data };
  for (const name in copy) copy[name] = copyOf(copy[name]);
  return copy;
}

/** @throws when a list is shorter than that */
export function nth<Each>(list: readonly Each[], place: number): Each {
  const each = list[place];
  if (each === undefined) throw new RangeError(`there is no place ${place} in a list of ${list.length}`);
  return each;
}
