import { expect, it } from 'vitest';
import { documentFile, run, tool } from './tools.ts';

it("openapi.json is valid and follows Redocly's recommended rules", async () => {
  const report = await run(tool('redocly'), ['lint', '--extends=recommended', '--format=json', documentFile]);
  expect(JSON.parse(report)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 } });
});
