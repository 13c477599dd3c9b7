import { describe, expect, it } from 'vitest';
import { documentFile, run, tool } from './tools.ts';

describe('openapi.json', () => {
  it('is valid OpenAPI 3.1', async () => {
    expect(await run(tool('validate-api'), [documentFile])).toContain('"valid": true');
  });

  it("gives Redocly's recommended rules nothing to say", async () => {
    const report = await run(tool('redocly'), ['lint', '--extends=recommended', '--format=json', documentFile]);
    expect(JSON.parse(report)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 } });
  });

  it("gives Spectral's OpenAPI rules nothing to say", async () => {
    const report = await run(tool('spectral'), [
      'lint',
      '--ruleset=spectral.yaml',
      '--fail-severity=hint',
      documentFile,
    ]);
    expect(report).toContain('No results');
  });
});
