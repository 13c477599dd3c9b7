import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

delete process.env['NODE_USE_ENV_PROXY']; // a proxy does not reach the services of the tests

const resultsFile = process.env['TEST_RESULTS'];

/** Tests that compare short times, such as the costs of two requests. Nothing else runs beside them. */
const TIMED = ['test/**/*.timed-spec.ts'];

/** The longest files, which begin first: otherwise one of them would run alone at the end. */
const LONGEST = [
  ...['start', 'history-follow', 'database-url', 'limits', 'list-changes', 'slow-networks', 'outcomes', 'lost-standby'],
  ...['standbys', 'history-feed', 'import', 'log-output', 'import-under-load', 'metrics', 'locked-pets', 'cli'],
  ...['keys', 'log', 'embedded-postgres', 'drain', 'migrations', 'health', 'session-settings', 'history', 'stock-list'],
];

class LongestFirst extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = LONGEST.findIndex((name) => new RegExp(`/${name}\\.(e2e-)?spec\\.ts$`).test(moduleId));
      return at < 0 ? LONGEST.length : at;
    };
    return Promise.resolve(files.toSorted((one, other) => rank(one) - rank(other)));
  }
}

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

/** `npm test`. */
const everyRun: TestProjectInlineConfiguration[] = [
  { test: { ...shared, name: 'all', include: ['{src,dev,faults,bench,test}/**/*.spec.ts', 'test/**/*.e2e-spec.ts'] } },
  { test: { ...shared, name: 'timed', include: TIMED, maxWorkers: 1, sequence: { groupOrder: 1 } } },
];

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
  {
    test: {
      name: 'upgrade', // needs the programs of PostgreSQL 15 and 18
      include: ['test/upgrade/*.trial.ts'],
      fileParallelism: false,
      testTimeout: 300_000,
      hookTimeout: 60_000,
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
    projects: isOnDemand ? [...everyRun, ...onDemand] : everyRun,
    globalSetup: 'test/support/global-setup.ts', // once a run
    sequence: { sequencer: LongestFirst },
    // A green run prints one page. A failed test prints its whole output.
    reporters: resultsFile ? ['dot', ['json', { outputFile: resultsFile }]] : ['dot'],
    silent: isOnDemand ? false : 'passed-only',
  },
});
