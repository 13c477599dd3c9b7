import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const resultsFile = process.env['TEST_RESULTS'];

/** The longest, in their order: begun last, they would keep one worker busy while the others are idle. */
const LONGEST = ['start', 'log', 'faults', 'limits', 'health', 'list', 'cli', 'framing'];

class LongestFirst extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.e2e-spec.ts`));
      return at < 0 ? LONGEST.length : at;
    };
    return Promise.resolve(files.toSorted((one, other) => rank(one) - rank(other)));
  }
}

export default defineConfig({
  test: {
    include: ['src/**/*.spec.ts', 'test/**/*.e2e-spec.ts', 'test/faults/*.spec.ts'],
    exclude: ['test/contract/**', 'test/containers/**'],
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 15_000,
    hookTimeout: 30_000,
    // Loading NestJS and Prisma takes longer than most files' tests, so a process serves one file after another. Where
    // settings, signals and the log of a whole process count, the test starts one of its own.
    pool: 'forks',
    isolate: false,
    maxWorkers: 3, // many tests wait for what is to happen
    // Some tests are about time, which a shared CI machine has less of.
    retry: process.env['CI'] ? 1 : 0,
    sequence: { sequencer: LongestFirst },
    reporters: resultsFile ? ['default', ['json', { outputFile: resultsFile }]] : ['default'],
  },
});
