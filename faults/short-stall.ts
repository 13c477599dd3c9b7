/** Preloaded into a service, cuts a stalled connection after `STALLED_MS`, so that a scenario need not wait for half a minute. */
const limits = new URL('../dist/http/limits.js', import.meta.url).href;
const { LIMITS } = (await import(limits)) as typeof import('../src/http/limits.ts');
LIMITS.stalledMs = Number(process.env['STALLED_MS']);
