/** What hooks have started. */
const startedInHooks: (() => unknown)[] = [];

/**
 * Calls `end` when the present test has ended, whether it passed or failed; at the end of the file where a hook calls this.
 * Outside Vitest, as in `npm run faults`, the caller ends it.
 */
export async function atTestEnd(end: () => unknown): Promise<void> {
  if (process.env['VITEST'] === undefined) return;
  const { TestRunner, onTestFinished } = await import('vitest');
  const test = TestRunner.getCurrentTest();
  // Nobody knows which of several concurrent tests calls this. Concurrent tests end what they start by themselves.
  if (test?.concurrent === true) return;
  if (test === undefined) startedInHooks.push(end);
  else
    onTestFinished(async () => {
      await end();
    });
}

/** The last first. */
export async function endWhatHooksStarted(): Promise<void> {
  for (const end of startedInHooks.splice(0).reverse()) await end();
}
