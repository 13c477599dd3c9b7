import { onTestFinished } from 'vitest';
import { type BatchEnd, batchEnds } from '../../src/lib/postgres/index.ts';

/** The numbers of calls of the batches with this name that end from now on, until the end of the test. */
export function watchBatches(wanted: string): readonly number[] {
  const sizes: number[] = [];
  const note = (end: unknown) => {
    const { name, calls } = end as BatchEnd;
    if (name === wanted) sizes.push(calls.length);
  };
  batchEnds.subscribe(note);
  onTestFinished(() => batchEnds.unsubscribe(note));
  return sizes;
}
