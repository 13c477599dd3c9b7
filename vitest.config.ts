import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.spec.ts', 'test/**/*.e2e-spec.ts'],
    exclude: ['test/contract/**', 'test/containers/**'],
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 15_000,
    hookTimeout: 30_000,
    // A process each, as in production: process-wide settings, signals and metrics of one file do not leak into another.
    pool: 'forks',
    maxWorkers: 2,
  },
});
