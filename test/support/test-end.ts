/**
 * Does this when the test that is running has ended, however it has. What a hook starts, a hook ends; outside of Vitest, as
 * in `npm run faults`, it is the caller's.
 */
export async function atTestEnd(end: () => unknown): Promise<void> {
  if (process.env['VITEST'] === undefined) return;
  const { onTestFinished } = await import('vitest');
  try {
    onTestFinished(async () => {
      await end();
    });
  } catch {
    // no test is running
  }
}
