import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type TestService, startService } from '../../test/support/service.ts';
import { areHere, contractFolder, documentFile, run, tool } from './tools.ts';

const OPENAPI_GENERATOR = '7.17.0';
const OAPI_CODEGEN = 'v2.8.2';
const generated = join(contractFolder, 'generated');

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
beforeEach(() => service.stock([1, 12], [3, 0, 'sold']));

describe('a TypeScript client that is generated from the document, compiled strictly', () => {
  const folder = join(generated, 'typescript');

  beforeAll(async () => {
    await rm(folder, { recursive: true, force: true });
    await run(tool('openapi-typescript'), [documentFile, '-o', `${folder}/openapi-typescript.ts`]);
    await run(tool('tsc'), ['-p', contractFolder]);
  }, 120_000);

  it('lists, updates once from the state it saw, and reads Errors', async () => {
    await listUpdateAndReadErrors(process.execPath, [`${folder}/compiled/clients/openapi-fetch.js`]);
  });
});

describe.skipIf(!(await areHere('mvn', 'java', 'python3')))(
  'a Python client that is generated from the document',
  () => {
    const folder = join(generated, 'python');
    const program = join(contractFolder, 'clients/openapi_generator.py');
    const python = `${folder}/environment/bin/python`;

    beforeAll(async () => {
      await rm(folder, { recursive: true, force: true });
      const artifact = `org.openapitools:openapi-generator-cli:${OPENAPI_GENERATOR}`;
      await run('mvn', ['-q', '-B', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${generated}`]);
      const jar = `${generated}/openapi-generator-cli-${OPENAPI_GENERATOR}.jar`;
      const options = ['-g', 'python', '-i', documentFile, '-o', folder, '--package-name', 'inventory_client'];
      await run('java', ['-jar', jar, 'generate', ...options]);
      await run('python3', ['-m', 'venv', `${folder}/environment`]);
      await run(python, ['-m', 'pip', 'install', '-q', '--disable-pip-version-check', '-r', 'requirements.txt']);
    }, 180_000);

    it('gives types that a program can satisfy mypy with at its strictest', async () => {
      await run(python, ['-m', 'mypy', '--strict', '--cache-dir', `${folder}/.mypy`, program], { PYTHONPATH: folder });
    });

    it('lists, updates once from the state it saw, and reads Errors', async () => {
      await listUpdateAndReadErrors(python, [program], { PYTHONPATH: folder });
    });
  },
);

describe.skipIf(!(await areHere('go')))('a Go client that is generated from the document', () => {
  const folder = join(generated, 'go');
  const generator = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${OAPI_CODEGEN}`;

  // The first run on a machine downloads and compiles the generator.
  beforeAll(async () => {
    await mkdir(folder, { recursive: true });
    const options = ['-generate=types,client', '-package=inventory', `-o=${folder}/inventory.go`];
    await run('go', ['run', generator, ...options, documentFile]);
  }, 600_000);

  it('compiles, lists, updates once from the state it saw, and reads Errors', async () => {
    await listUpdateAndReadErrors('go', ['run', './clients']);
  });
});

describe.skipIf(!(await areHere('java', 'javac')))(
  "Java's own HttpClient, which offers HTTP/2 with each request",
  () => {
    it('lists, updates once from the state it saw and reads Errors, 203 requests on one connection', async () => {
      let connections = 0;
      let offers = 0;
      service.server.on('connection', () => connections++);
      service.server.on('request', ({ headers }) => (offers += headers.upgrade === 'h2c' ? 1 : 0));
      const environment = { INVENTORY_URL: `${service.url}/v1`, INVENTORY_KEY: service.key };
      expect((await run('java', ['clients/JavaHttpClient.java'], environment)).trim().split('\n')).toEqual([
        'HTTP_1_1 200 - [{"petId":1,"quantity":12,"status":"available"},{"petId":3,"quantity":0,"status":"sold"}]',
        'HTTP_1_1 200 - {"petId":1,"quantity":13,"status":"available"}',
        'HTTP_1_1 200 true {"petId":1,"quantity":13,"status":"available"}',
        'HTTP_1_1 412 - {"code":"precondition_failed","message":"If-Match does not hold: none of its tags is the present one. A weak tag (W/) never matches. A proxy that compresses can make a tag weak, or add a suffix.","status":412}',
        'HTTP_1_1 404 - {"code":"not_found","message":"There is no pet with this petId.","status":404}',
      ]);
      expect({ connections, offers }).toEqual({ connections: 1, offers: 203 });
    }, 60_000);
  },
);

async function listUpdateAndReadErrors(command: string, args: readonly string[], environment = {}): Promise<void> {
  const settings = { INVENTORY_URL: `${service.url}/v1`, INVENTORY_KEY: service.key };
  expect(JSON.parse(await run(command, args, { ...settings, ...environment }))).toEqual({
    list: [
      { petId: 1, quantity: 12, status: 'available' },
      { petId: 3, quantity: 0, status: 'sold' },
    ],
    updated: { petId: 1, quantity: 13, status: 'available' },
    repeated: { petId: 1, quantity: 13, status: 'available' },
    replayed: 'true',
    changed: 'precondition_failed',
    code: 'not_found',
    status: 404,
  });
}
