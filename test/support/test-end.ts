/** What hooks of the present file have started. */
let startedInHooks = new AsyncDisposableStack();

/**
 * Calls `end` when the present test has ended, whether it passed or failed; at the end of the file where a hook calls
 * this. Outside Vitest, as in `npm run faults`, the caller ends it.
 */
export async function atTestEnd(end: () => unknown): Promise<void> {
  if (process.env['VITEST'] === undefined) return;
  const { TestRunner, onTestFinished } = await import('vitest');
  const test = TestRunner.getCurrentTest();
  const act = async (): Promise<void> => {
    await end();
  };
  if (test === undefined) startedInHooks.defer(act);
  // Nobody knows which of several concurrent tests calls this. Concurrent tests end what they start by themselves.
  else if (test.concurrent !== true) onTestFinished(act);
}

/** The last first, and each one even if another fails. */
export async function endWhatHooksStarted(): Promise<void> {
  const ended = startedInHooks;
  startedInHooks = new AsyncDisposableStack();
  await ended.disposeAsync();
}
