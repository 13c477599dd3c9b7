import { defineConfig } from 'vitest/config';
import everyRun from '../../vitest.config.ts';

/** The property test at length; `FUZZ_REQUESTS` asks for another number. */
export default defineConfig({
  test: {
    ...everyRun.test,
    include: ['test/http/random-requests.e2e-spec.ts'],
    env: { FUZZ_REQUESTS: process.env['FUZZ_REQUESTS'] ?? '20000' },
  },
});
