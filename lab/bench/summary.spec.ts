import { expect, it } from 'vitest';
import { withPresentReasons, type Results } from './results.ts';
import { scenarios } from './scenarios.ts';
import { scenarioVerdicts } from './summary.ts';

/** A run of the lone update, whose CPU time is so many times that of Fastify, with a goal of its own. */
function run(...ratios: number[]): Results {
  const rounds = ratios.flatMap((ratio, round) => [
    { side: 'service', round, programCpuUs: 75 * ratio, postgresCpuUs: 25 * ratio, poolerCpuUs: 0 },
    { side: 'fastify', round, programCpuUs: 75, postgresCpuUs: 25, poolerCpuUs: 0 },
  ]);
  const lone = scenarios.find(({ name }) => name === 'update-c1');
  const goals = lone?.goals.map((goal) => ({ ...goal, value: 1.45, since: '2026-01-01' }));
  return { scenarios: [{ scenario: { ...lone, goals }, rounds }] } as unknown as Results;
}

it('a run is judged by the goals that it began with, by a median whose interval leaves out the lowest and the highest of ten rounds', () => {
  const verdict = (...ratios: number[]) => scenarioVerdicts(withPresentReasons(run(...ratios)))[0];
  const ten = verdict(9, 1.4, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.6, 0.1);
  expect(ten).toMatchObject({ wanted: '≤ 1.45', since: '2026-01-01', reached: false });
  expect(ten?.found).toEqual({ median: 1.5, low: 1.4, high: 1.6 });
  expect(verdict(9, 1.4, 0.1)).toMatchObject({ reached: true, found: { median: 1.4, low: 0.1, high: 9 } });
});
