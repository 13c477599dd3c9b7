import * as vega from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import type { Results } from './results.ts';
import { linesOf } from './summary.ts';

/** @returns the SVG text of the page's picture: each ratio to Fastify + pg with its interval, and its goal */
export async function plot(results: Results): Promise<string> {
  return new vega.View(vega.parse(compile(ratios(results)).spec), { renderer: 'none' }).toSVG();
}

function ratios({ scenarios }: Results): TopLevelSpec {
  const rows = scenarios.flatMap((found) => {
    const ratio = linesOf(found).find(({ side }) => side === 'fastify')?.ratios?.cpu;
    const goal = found.scenario.goals.find(({ figure, against }) => figure === 'cpu' && against === 'fastify')?.value;
    return ratio ? [{ scenario: found.scenario.title, ...ratio, goal: goal ?? null }] : [];
  });
  const y = { field: 'scenario', type: 'nominal', sort: null, title: null } as const;
  const x = {
    type: 'quantitative',
    scale: { type: 'log' },
    title: 'times the CPU time of Fastify + pg (less is better)',
  } as const;
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    background: 'white',
    padding: 12,
    config: {
      font: 'sans-serif',
      axis: { labelFontSize: 12, titleFontSize: 12, labelLimit: 0, gridColor: '#e6e6e6' },
      title: { fontSize: 14, anchor: 'start' },
    },
    title: 'This service compared with Fastify + pg',
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
