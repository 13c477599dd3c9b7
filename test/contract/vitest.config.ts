import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/contract/*.contract.ts'],
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 120_000,
    hookTimeout: 60_000,
    pool: 'forks',
    maxWorkers: 2,
  },
});
