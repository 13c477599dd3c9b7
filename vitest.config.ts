import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { PATIENCE_MS } from './test/support/patience.ts';

delete process.env['NODE_USE_ENV_PROXY']; // a proxy does not reach the services of the tests

const resultsFile = process.env['TEST_RESULTS'];

const shared = {
  setupFiles: 'test/support/file-end.ts', // ends what hooks have started
  maxWorkers: 6, // on two cores, for most tests wait most of the time; each worker loads NestJS and Prisma first
  // A test may wait for several things: what it waits for ends first, and says what did not come.
  testTimeout: 3 * PATIENCE_MS,
  hookTimeout: 3 * PATIENCE_MS,
  expect: { poll: { timeout: PATIENCE_MS } },
} as const;

/**
 * `npm test`. A worker runs one file after another in one process, because loading NestJS and Prisma takes longer than
 * the tests of most files. Vitest begins with the files that took longest the last time; the first time, with the
 * largest. Vitest restores all spies once more at the end of a file: a spy on a fake timer would bring that timer back.
 */
const all: TestProjectInlineConfiguration = {
  test: {
    ...shared,
    name: 'all',
    include: ['{src,dev,test,lab}/**/*.spec.ts', 'test/**/*.e2e-spec.ts'],
    pool: 'forks',
    isolate: false,
  },
};

/** On a new machine, a test may compile Go's standard library first, on two cores that others use too. */
const COMPILING_MS = 300_000;

/** Projects that take longer, or need more than a clone has: `npm test -- --project <name>` (CONTRIBUTING.md). */
const onDemand: TestProjectInlineConfiguration[] = [
  { test: { ...shared, name: 'browser', include: ['lab/browser/*.trial.ts'] } },
  {
    test: {
      ...shared,
      name: 'contract',
      include: ['lab/contract/*.contract.ts'],
      globalSetup: 'lab/contract/install.ts',
      testTimeout: COMPILING_MS,
    },
  },
  { test: { ...shared, name: 'judge', include: ['lab/faults/judge.trial.ts'], testTimeout: COMPILING_MS } },
  { test: { ...shared, name: 'proxies', include: ['lab/proxies/*.trial.ts'] } },
  { test: { ...shared, ...onDocker('containers', 'compose') } }, // CI runs it beside other projects
  { test: { ...shared, ...onDocker('recipes', 'recipes'), fileParallelism: false } },
  { test: { ...shared, ...onDocker('failover', 'failover'), fileParallelism: false } },
];

function onDocker(name: string, file: string) {
  return { name, include: [`lab/containers/${file}.trial.ts`], testTimeout: 400_000, hookTimeout: 600_000 };
}

const isOnDemand = process.argv.some((argument) => argument.startsWith('--project'));

export default defineConfig({
  test: {
    projects: isOnDemand ? [all, ...onDemand] : [all],
    globalSetup: 'test/support/global-setup.ts', // once a run
    // A green run prints one page. A failed test prints its whole output.
    reporters: resultsFile ? ['dot', ['json', { outputFile: resultsFile }]] : ['dot'],
    silent: isOnDemand ? false : 'passed-only',
    // A failed test leaves requests, whose connections then end. Each would print a page behind the one with the cause.
    onUnhandledError: ({ name }) => name !== 'ConnectionLost' && name !== 'NotConnected',
  },
});
