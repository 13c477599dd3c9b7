import { defineConfig } from 'vitest/config';

/** Trials on real containers, `npm run test:containers`: they need Docker and minutes, so `npm test` leaves them out. */
export default defineConfig({
  test: {
    include: ['test/containers/*.trial.ts'],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 600_000,
  },
});
