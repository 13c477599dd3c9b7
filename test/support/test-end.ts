/**
 * Calls `end` when the present test has ended, whether it passed or failed. A hook ends what it starts by itself. Outside
 * Vitest, as in `npm run faults`, the caller ends it.
 */
export async function atTestEnd(end: () => unknown): Promise<void> {
  if (process.env['VITEST'] === undefined) return;
  const { TestRunner, onTestFinished } = await import('vitest');
  const test = TestRunner.getCurrentTest();
  // Nobody knows which of several concurrent tests calls this. Concurrent tests end what they start by themselves.
  if (test === undefined || test.concurrent === true) return;
  onTestFinished(async () => {
    await end();
  });
}
