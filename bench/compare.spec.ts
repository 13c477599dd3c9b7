import { expect, it } from 'vitest';
import { compareRuns } from './compare.ts';
import { withPresentReasons, type Results } from './results.ts';
import { scenarios } from './scenarios.ts';
import { scenarioVerdicts } from './summary.ts';

const lone = scenarios.filter(({ name }) => name === 'update-c1');
const what = 'update, 1 connection: CPU compared with Fastify + pg';

/** A run of the lone update, whose CPU time is so many times that of Fastify. */
function run(...ratios: number[]): Results {
  const rounds = ratios.flatMap((ratio, round) =>
    (['service', 'fastify'] as const).map((side) => ({
      side,
      round,
      requestsPerSecond: 1_000,
      failures: 0,
      programCpuUs: side === 'service' ? 75 * ratio : 75,
      postgresCpuUs: side === 'service' ? 25 * ratio : 25,
      poolerCpuUs: 0,
      peakMemoryMb: 100,
      updatesPerSecond: 0,
    })),
  );
  return { scenarios: lone.map((scenario) => ({ scenario, rounds })) } as unknown as Results;
}

const aboutOneAndAHalf = run(9, 1.4, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.6, 0.1);

it('says that two runs agree when the intervals overlap, without the lowest and the highest round', () => {
  const other = run(1.6, 1.7, 1.7, 1.7, 1.7, 1.7, 1.7, 1.6, 1.8, 1.6);
  expect(compareRuns(aboutOneAndAHalf, other)).toEqual({
    agree: true,
    lines: [`yes  ${what}, 1.5 (1.4–1.6) of 10 rounds and 1.7 (1.6–1.7) of 10 rounds`],
  });
});

it('says that two runs do not agree when the intervals lie apart', () => {
  const other = run(1.6, 1.7, 1.7, 1.7, 1.7, 1.7, 1.7, 1.7, 1.7, 1.8);
  expect(compareRuns(aboutOneAndAHalf, other)).toEqual({
    agree: false,
    lines: [`NO   ${what}, 1.5 (1.4–1.6) of 10 rounds and 1.7 of 10 rounds`],
  });
});

it('says that two runs do not agree when one has fewer than ten rounds, or not the figure', () => {
  const short = run(1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5);
  expect(compareRuns(aboutOneAndAHalf, short).agree).toBe(false);
  expect(compareRuns(aboutOneAndAHalf, { scenarios: [] } as unknown as Results).agree).toBe(false);
});

it('judges a run by the goals that it began with', () => {
  const before = aboutOneAndAHalf.scenarios.map(({ scenario, rounds }) => ({
    scenario: { ...scenario, goals: scenario.goals.map((goal) => ({ ...goal, value: 1.45, since: '2026-01-01' })) },
    rounds,
  }));
  const [cpu] = scenarioVerdicts(withPresentReasons({ ...aboutOneAndAHalf, scenarios: before }));
  expect(cpu).toMatchObject({ wanted: '≤ 1.45', since: '2026-01-01', reached: false });
});
