import { describe, expect, it } from 'vitest';
import type { ScenarioResults } from './benchmark.ts';
import type { Measurement } from './measure.ts';
import { scenarios, type Goal, type SideName } from './scenarios.ts';
import { medianWithInterval } from './statistics.ts';
import { table } from './table.ts';

type Round = [cpuUs: number, requestsPerSecond: number, rest?: Partial<Measurement>];

const since = '2026-01-01';

/** A run of one of the scenarios, with goals of its own. */
function run(name: string, goals: Omit<Goal, 'since'>[], rounds: Partial<Record<SideName, Round[]>>): ScenarioResults {
  const scenario = scenarios.find((each) => each.name === name);
  if (!scenario) throw new Error(`there is no scenario ${name}`);
  return {
    scenario: { ...scenario, goals: goals.map((goal) => ({ ...goal, since })) },
    rounds: Object.entries(rounds).flatMap(([side, ofSide]) =>
      ofSide.map(([cpuUs, requestsPerSecond, rest], round) => ({
        side: side as SideName,
        round,
        requestsPerSecond,
        failures: 0,
        programCpuUs: cpuUs * 0.5,
        postgresCpuUs: cpuUs * 0.25,
        poolerCpuUs: cpuUs * 0.25,
        updatesPerSecond: 0,
        ...rest,
      })),
    ),
  };
}

/** The rows of the table, their cells without the blanks around them. */
function rowsOf(...measured: ScenarioResults[]): string[] {
  const lines = table(measured, []).split('\n').slice(2);
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim())
      .join(' | '),
  );
}

it('leaves the lowest and the highest out of the interval from ten rounds on', () => {
  const ten = [9, 1.4, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.6, 0.1];
  expect(medianWithInterval(ten)).toEqual({ median: 1.5, low: 1.4, high: 1.6 });
  expect(medianWithInterval([9, 0.1, 1.4, 1.6])).toEqual({ median: 1.5, low: 0.1, high: 9 });
});

describe('the table', () => {
  it('compares the service with Fastify round by round, and judges the median of the ratios', () => {
    const update = run(
      'update-c1',
      [
        { figure: 'cpu', side: 'service', value: 1.5 },
        { figure: 'rate', side: 'service', value: 0.75 },
      ],
      {
        service: [
          [150, 700],
          [280, 1_200],
          [600, 1_000],
        ],
        fastify: [
          [100, 1_000],
          [200, 2_000],
          [300, 1_250],
        ],
        nest: [[9_999.6, 9.876]],
      },
    );
    expect(rowsOf(update)).toEqual([
      'CPU µs | update, 1 connection | this service | 280 (150–600) | 1.5 (1.4–2) of Fastify + pg | ≤1.5 (2026-01-01) | reached | of it PostgreSQL 70',
      'CPU µs | update, 1 connection | Fastify + pg | 200 (100–300) |  |  |  | of it PostgreSQL 50',
      'CPU µs | update, 1 connection | NestJS + Prisma | 10,000 |  |  |  | of it PostgreSQL 2,500',
      'requests/s | update, 1 connection | this service | 1,000 (700–1,200) | 0.7 (0.6–0.8) of Fastify + pg | ≥0.75 (2026-01-01) | **missed** | ',
      'requests/s | update, 1 connection | Fastify + pg | 1,250 (1,000–2,000) |  |  |  | ',
      'requests/s | update, 1 connection | NestJS + Prisma | 9.88 |  |  |  | ',
    ]);
  });

  it('compares PgBouncer with direct, and updates beside with none; names failures and faults', () => {
    const alone = run('steady', [{ figure: 'cpu', side: 'pooled', value: 1.3 }], {
      service: [[100, 150]],
      pooled: [[140, 150]],
    });
    const beside = run('steady-updates', [{ figure: 'cpu', side: 'service', value: 2.2 }], {
      service: [[200, 75, { failures: 3, updatesPerSecond: 99.8, fault: '2 pets are wrong' }]],
    });
    const [quiet, updates] = [
      'list of 100,000 pets, 150 a second',
      'list of 100,000 pets, 150 a second, 100 updates/s beside',
    ];
    const remarks = 'of it PostgreSQL 50; 99.8 updates/s beside; 3 failed; 2 pets are wrong';
    expect(rowsOf(alone, beside)).toEqual([
      `CPU µs | ${quiet} | this service | 100 |  |  |  | of it PostgreSQL 25`,
      `CPU µs | ${quiet} | this service behind PgBouncer | 140 | 1.4 of this service | ≤1.3 (2026-01-01) | **missed** | of it PostgreSQL 35`,
      `CPU µs | ${updates} | this service | 200 | 2 of the same alone | ≤2.2 (2026-01-01) | reached | ${remarks}`,
      `requests/s | ${quiet} | this service | 150 |  |  |  | `,
      `requests/s | ${quiet} | this service behind PgBouncer | 150 | 1 of this service |  |  | `,
      `requests/s | ${updates} | this service | 75 | 0.5 of the same alone |  |  | `,
    ]);
    const [withoutPeer] = rowsOf(beside);
    expect(withoutPeer).toBe(`CPU µs | ${updates} | this service | 200 |  | ≤2.2 (2026-01-01) |  | ${remarks}`);
  });

  it('judges the readings of a million pets by their medians, and is Markdown as Prettier writes it', () => {
    const goal = { value: 1_500, since };
    const first = { what: 'the list', valuesMs: [1_400, 1_500, 9_000], goal };
    const second = { what: 'the same again', valuesMs: [1_501], goal };
    expect(`\n${table([], [first, second])}\n`).toBe(`
| figure | scenario       | program      | median              | ratio | goal                | verdict    | remarks |
| ------ | -------------- | ------------ | ------------------- | ----- | ------------------- | ---------- | ------- |
| ms     | the list       | this service | 1,500 (1,400–9,000) |       | ≤1,500 (2026-01-01) | reached    |         |
| ms     | the same again | this service | 1,501               |       | ≤1,500 (2026-01-01) | **missed** |         |
`);
  });
});
