/**
 * Does this when the test that is running has ended, however it has. What a hook starts, a hook ends; outside of Vitest, as
 * in `npm run faults`, it is the caller's.
 */
export async function atTestEnd(end: () => unknown): Promise<void> {
  if (process.env['VITEST'] === undefined) return;
  const { getCurrentTest } = await import('vitest/suite');
  const { onTestFinished } = await import('vitest');
  const test = getCurrentTest();
  // Beside concurrent tests nobody knows which of them runs; these end what they start by themselves.
  if (test === undefined || test.concurrent === true) return;
  onTestFinished(async () => {
    await end();
  });
}
