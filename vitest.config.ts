import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

delete process.env['NODE_USE_ENV_PROXY']; // a proxy does not reach the services of the tests

const resultsFile = process.env['TEST_RESULTS'];

/** Ends what hooks have started. */
const FILE_END = 'test/support/file-end.ts';

const maxWorkers = 6; // on two cores, for most tests wait most of the time

/**
 * A worker runs one file after another in one process, because loading NestJS and Prisma takes longer than most files' tests.
 * Tests of settings, signals and the log start a service of their own.
 */
const shared = {
  pool: 'forks',
  isolate: false,
  maxWorkers,
  setupFiles: FILE_END,
  testTimeout: 60_000,
  hookTimeout: 60_000,
  expect: { poll: { timeout: 15_000 } }, // a busy machine needs more than the default, a second
} as const;

/** `npm test`. Vitest begins with the files that took longest the last time; the first time, with the largest. */
const all: TestProjectInlineConfiguration = {
  test: { ...shared, name: 'all', include: ['{src,dev,faults,bench,test}/**/*.spec.ts', 'test/**/*.e2e-spec.ts'] },
};

/** Projects that take longer, or need more than a clone has: `npm test -- --project <name>`. */
const onDemand: TestProjectInlineConfiguration[] = [
  {
    test: {
      ...shared,
      name: 'fuzz', // more random requests
      include: ['test/http/random-requests.e2e-spec.ts'],
      env: { FUZZ_REQUESTS: process.env['FUZZ_REQUESTS'] ?? '20000' },
    },
  },
  {
    test: {
      ...shared,
      name: 'feed', // a longer run of the change feed's proof
      include: ['test/commands/history-follow.e2e-spec.ts'],
      env: { FEED_SECONDS: process.env['FEED_SECONDS'] ?? '30' },
    },
  },
  {
    test: {
      name: 'browser',
      setupFiles: FILE_END,
      include: ['test/browser/*.trial.ts'],
      maxWorkers,
      testTimeout: 60_000,
      hookTimeout: 60_000,
    },
  },
  {
    test: {
      name: 'contract',
      globalSetup: 'test/contract/install.ts',
      setupFiles: FILE_END,
      include: ['test/contract/*.contract.ts'],
      testTimeout: 120_000,
      hookTimeout: 60_000,
      maxWorkers,
    },
  },
  { test: { ...shared, name: 'judge', include: ['faults/judge.trial.ts'] } }, // needs Go
  {
    test: {
      name: 'proxies', // needs HAProxy and nginx
      setupFiles: FILE_END,
      include: ['test/proxies/*.trial.ts'],
      maxWorkers,
      testTimeout: 30_000,
      hookTimeout: 60_000,
      expect: { poll: { timeout: 10_000 } },
    },
  },
  { test: { ...onDocker('compose'), name: 'containers', maxWorkers } }, // CI runs it beside other projects
  { test: { ...onDocker('recipes'), fileParallelism: false } },
  { test: { ...onDocker('failover'), fileParallelism: false } },
];

function onDocker(name: string) {
  return { name, include: [`test/containers/${name}.trial.ts`], testTimeout: 400_000, hookTimeout: 600_000 };
}

const isOnDemand = process.argv.some((argument) => argument.startsWith('--project'));

export default defineConfig({
  test: {
    projects: isOnDemand ? [all, ...onDemand] : [all],
    globalSetup: 'test/support/global-setup.ts', // once a run
    // A green run prints one page. A failed test prints its whole output.
    reporters: resultsFile ? ['dot', ['json', { outputFile: resultsFile }]] : ['dot'],
    silent: isOnDemand ? false : 'passed-only',
  },
});
