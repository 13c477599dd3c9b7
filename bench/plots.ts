import * as vega from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import type { Results, ScenarioResults } from './results.ts';
import type { Contender } from './scenarios.ts';
import { labelOf } from './sides.ts';
import { isQuietList, linesOf } from './summary.ts';

const look = {
  $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
  background: 'white',
  padding: 12,
  config: {
    font: 'sans-serif',
    axis: { labelFontSize: 12, titleFontSize: 12, labelLimit: 0, gridColor: '#e6e6e6' },
    legend: { labelFontSize: 12, title: null, labelLimit: 0, orient: 'bottom', columns: 2 },
    title: { fontSize: 14, anchor: 'start' },
  },
} as const;

/** The same color for the same program in every plot. */
const colorOf: Record<Contender, string> = {
  service: '#0b6e4f',
  fastify: '#c8553d',
  oneTrip: '#e58b7b',
  express: '#e0a458',
  nest: '#6a5acd',
  keeping: '#3a86c8',
  weaker: '#8d99ae',
  bare: '#222222',
  pgbench: '#7f7f7f',
};

function colors(found: readonly ScenarioResults[]) {
  const contenders = (Object.keys(colorOf) as Contender[]).filter((contender) =>
    found.some(({ rounds }) => rounds.some((round) => round.contender === contender)),
  );
  return { domain: contenders.map(labelOf), range: contenders.map((contender) => colorOf[contender]) };
}

/** File names and SVG texts of the plots in the report. */
export async function plots(results: Results): Promise<Record<string, string>> {
  return {
    'performance-ratios.svg': await draw(ratios(results)),
    'performance-lists.svg': await draw(lists(results)),
    'performance-updates.svg': await draw(updates(results)),
  };
}

async function draw(spec: TopLevelSpec): Promise<string> {
  return new vega.View(vega.parse(compile(spec).spec), { renderer: 'none' }).toSVG();
}

/** How many times the rate of Fastify + pg, with its lowest and highest round and the goal where there is one. */
function ratios(results: Results): TopLevelSpec {
  const rows = results.scenarios.flatMap((found) => {
    const ratio = linesOf(found).find(({ contender }) => contender === 'fastify')?.ratio;
    const goal = found.scenario.targets.find(({ against }) => against === 'fastify')?.atLeast;
    return ratio ? [{ scenario: found.scenario.title, ...ratio, goal: goal ?? null }] : [];
  });
  const y = { field: 'scenario', type: 'nominal', sort: null, title: null } as const;
  const x = { type: 'quantitative', scale: { type: 'log' }, title: 'times the requests/s of Fastify + pg' } as const;
  return {
    ...look,
    title: 'This service against Fastify + pg with the same promises',
    width: 560,
    height: { step: 22 },
    data: { values: rows },
    layer: [
      { mark: { type: 'rule', color: '#999999', strokeDash: [4, 3] }, encoding: { x: { datum: 1, ...x } } },
      {
        mark: { type: 'rule', color: '#0b6e4f', strokeWidth: 2 },
        encoding: { y, x: { field: 'low', ...x }, x2: { field: 'high' } },
      },
      {
        mark: { type: 'point', filled: true, size: 70, color: '#0b6e4f' },
        encoding: { y, x: { field: 'median', ...x } },
      },
      {
        transform: [{ filter: 'datum.goal !== null' }],
        mark: { type: 'tick', color: '#c8553d', thickness: 2, size: 16 },
        encoding: { y, x: { field: 'goal', ...x } },
      },
    ],
  };
}

function lists({ scenarios }: Results): TopLevelSpec {
  const shown = scenarios.filter(
    ({ scenario }) =>
      isQuietList(scenario) &&
      !scenario.gzip &&
      (scenario.connections === 8 || (scenario.pets === 1_000_000 && scenario.connections === 4)),
  );
  return {
    ...look,
    title: 'Lists a second, 8 connections (a million pets: 4)',
    width: 560,
    height: 320,
    data: { values: rates(shown) },
    mark: { type: 'line', point: true },
    encoding: {
      x: {
        field: 'pets',
        type: 'quantitative',
        scale: { type: 'log' },
        axis: { format: '~s', labelFlush: false, values: [10, 1e3, 1e4, 1e5, 1e6] },
        title: 'pets',
      },
      y: { field: 'rate', type: 'quantitative', scale: { type: 'log' }, axis: { format: '~s' }, title: 'lists/s' },
      color: { field: 'label', type: 'nominal', sort: null, scale: colors(shown) },
    },
  };
}

function updates({ scenarios }: Results): TopLevelSpec {
  const shown = scenarios.filter(({ scenario }) => scenario.kind === 'update' || scenario.kind === 'hot');
  const labels = { labelAngle: 0, labelExpr: "split(datum.label, ', ')" };
  return {
    ...look,
    title: 'Durable updates a second, each with its history row where not said otherwise',
    width: 560,
    height: 300,
    data: { values: rates(shown) },
    mark: 'bar',
    encoding: {
      x: { field: 'scenario', type: 'nominal', sort: null, axis: labels, title: null },
      xOffset: { field: 'label', sort: null },
      y: { field: 'rate', type: 'quantitative', axis: { format: '~s' }, title: 'updates/s' },
      color: { field: 'label', type: 'nominal', sort: null, scale: colors(shown) },
    },
  };
}

function rates(shown: readonly ScenarioResults[]) {
  return shown.flatMap((found) =>
    linesOf(found).map(({ contender, requestsPerSecond }) => ({
      scenario: found.scenario.title,
      pets: found.scenario.pets,
      label: labelOf(contender),
      rate: requestsPerSecond,
    })),
  );
}
