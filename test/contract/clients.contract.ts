import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type TestService, startService } from '../support/service.ts';
import { contractFolder, documentFile, run } from './tools.ts';

const generated = join(contractFolder, 'generated');

describe('clients that are generated from the document, compiled strictly', () => {
  let service: TestService;

  beforeAll(async () => {
    await rm(generated, { recursive: true, force: true });
    await Promise.all([
      run('openapi-ts', [
        '-i',
        documentFile,
        '-o',
        `${generated}/hey-api`,
        '-c',
        '@hey-api/client-fetch',
        '--no-log-file',
      ]),
      run('openapi-typescript', [documentFile, '-o', `${generated}/openapi-typescript.ts`]),
      run('swagger-typescript-api', [
        ...['generate', '-p', documentFile, '-o', generated, '-n', 'swagger-typescript-api.ts', '--enum-style=union'],
      ]),
    ]);
    await lookClosely(join(generated, 'swagger-typescript-api.ts'));
    await run('tsc', ['-p', contractFolder]);
    service = await startService();
  });
  beforeEach(() => service.stock([1, 12], [3, 0, 'sold']));
  afterAll(() => service.stop());

  it.each(['hey-api', 'openapi-fetch', 'swagger-typescript-api'])(
    '%s lists, updates and reads an Error',
    async (name) => {
      const output = await run('node', [`${generated}/compiled/clients/${name}.js`], {
        INVENTORY_URL: service.url,
        INVENTORY_KEY: service.key,
      });
      expect(JSON.parse(output)).toEqual({
        list: [
          { petId: 1, quantity: 12, status: 'available' },
          { petId: 3, quantity: 0, status: 'sold' },
        ],
        updated: { petId: 1, quantity: 13, status: 'available' },
        code: 'not_found',
        status: 404,
      });
    },
  );
});

/** This generator tells the compiler to look away from what it makes. */
async function lookClosely(file: string): Promise<void> {
  await writeFile(file, (await readFile(file, 'utf8')).replace('// @ts-nocheck\n', ''));
}
