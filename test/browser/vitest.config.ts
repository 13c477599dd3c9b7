import { defineConfig } from 'vitest/config';

/** Trials in a real browser, `npm run test:browser`: they need Chromium, so `npm test` leaves them out. */
export default defineConfig({
  test: {
    include: ['test/browser/*.trial.ts'],
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
