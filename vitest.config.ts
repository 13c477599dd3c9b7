import { defineConfig } from 'vitest/config';

const resultsFile = process.env['TEST_RESULTS'];

export default defineConfig({
  test: {
    include: ['src/**/*.spec.ts', 'test/**/*.e2e-spec.ts', 'test/faults/*.spec.ts'],
    exclude: ['test/contract/**', 'test/containers/**'],
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 15_000,
    hookTimeout: 30_000,
    // A process for each file, as in production: settings, signals and metrics of one do not leak into another.
    pool: 'forks',
    maxWorkers: 2,
    // Some tests are about time, which a shared CI machine has less of.
    retry: process.env['CI'] ? 1 : 0,
    reporters: resultsFile ? ['default', ['json', { outputFile: resultsFile }]] : ['default'],
  },
});
