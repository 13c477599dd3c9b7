import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const resultsFile = process.env['TEST_RESULTS'];

/** What asserts short times, such as how much dearer one request is than another, and so has the machine for itself. */
const TIMED = ['test/**/*.timed-spec.ts'];

/** The longest, in their order: begun last, they would keep one worker busy while the others are idle. */
const LONGEST = [
  'start',
  'faults',
  'history-feed',
  'database-url',
  'list-changes',
  'durability',
  'list',
  'log',
  'import',
];

class LongestFirst extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.e2e-spec.ts`));
      return at < 0 ? LONGEST.length : at;
    };
    return Promise.resolve(files.toSorted((one, other) => rank(one) - rank(other)));
  }
}

const maxWorkers = 3; // many tests wait for what is to happen

/**
 * Loading NestJS and Prisma takes longer than most files' tests, so a process serves one file after another. Where
 * settings, signals and the log of a whole process count, the test starts one of its own.
 */
const shared = {
  pool: 'forks',
  isolate: false,
  maxWorkers,
  testTimeout: 30_000,
  hookTimeout: 30_000,
} as const;

/** `npm test`. */
const everyRun: TestProjectInlineConfiguration[] = [
  { test: { ...shared, name: 'unit', include: ['src/**/*.spec.ts', 'faults/**/*.spec.ts'] } },
  {
    test: { ...shared, name: 'e2e', include: ['test/**/*.e2e-spec.ts', 'faults/*.e2e-spec.ts'] },
  },
  {
    test: {
      ...shared,
      name: 'plain', // the same promises without the fast service
      include: ['test/{updates,idempotency-keys,list}.e2e-spec.ts', 'test/http/conditional-requests.e2e-spec.ts'],
      env: { FAST: 'off' },
    },
  },
  { test: { ...shared, name: 'timed', include: TIMED, maxWorkers: 1, sequence: { groupOrder: 1 } } },
];

/** What needs more than a clone has, or longer: `npm test -- --project <name>`. */
const onDemand: TestProjectInlineConfiguration[] = [
  {
    test: {
      ...shared,
      name: 'fuzz', // the property test at length; FUZZ_REQUESTS asks for another number
      include: ['test/http/random-requests.e2e-spec.ts'],
      env: { FUZZ_REQUESTS: process.env['FUZZ_REQUESTS'] ?? '20000' },
    },
  },
  {
    test: {
      ...shared,
      name: 'feed', // the proof of the change feed at length
      include: ['test/commands/history-feed.e2e-spec.ts'],
      env: { FEED_SECONDS: process.env['FEED_SECONDS'] ?? '30' },
    },
  },
  {
    test: {
      name: 'browser',
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
      include: ['test/contract/*.contract.ts'],
      testTimeout: 120_000,
      hookTimeout: 60_000,
      maxWorkers,
    },
  },
  {
    test: {
      name: 'proxies', // HAProxy and nginx as programs of this machine
      include: ['test/proxies/*.trial.ts'],
      testTimeout: 30_000,
      hookTimeout: 60_000,
      expect: { poll: { timeout: 10_000 } },
    },
  },
  {
    test: {
      name: 'upgrade', // PostgreSQL 15's and 18's own programs
      include: ['test/upgrade/*.trial.ts'],
      fileParallelism: false,
      testTimeout: 300_000,
      hookTimeout: 60_000,
    },
  },
  ...['containers', 'recipes', 'failover'].map((name) => ({
    test: {
      name, // Docker
      include: name === 'containers' ? ['compose', 'scale'].map(containerTrial) : [containerTrial(name)],
      fileParallelism: false,
      testTimeout: 400_000,
      hookTimeout: 600_000,
    },
  })),
];

function containerTrial(subject: string): string {
  return `test/containers/${subject}.trial.ts`;
}

const isOnDemand = process.argv.some((argument) => argument.startsWith('--project'));

export default defineConfig({
  test: {
    projects: isOnDemand ? [...everyRun, ...onDemand] : everyRun,
    globalSetup: 'test/support/global-setup.ts', // once a run, whichever projects are in it
    sequence: { sequencer: LongestFirst },
    // A green run is a page; what fails is told whole, with what it wrote.
    reporters: resultsFile ? ['dot', ['json', { outputFile: resultsFile }]] : ['dot'],
    silent: isOnDemand ? false : 'passed-only',
  },
});
