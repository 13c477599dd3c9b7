import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestService, startService } from '../support/service.ts';
import { areHere, run } from './tools.ts';

describe.skipIf(!(await areHere('java', 'javac')))(
  "Java's own HttpClient, which offers HTTP/2 with each request",
  () => {
    let service: TestService;
    beforeAll(async () => {
      service = await startService();
      await service.stock([1, 12], [3, 0, 'sold']);
    });
    afterAll(() => service.stop());

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
        'HTTP_1_1 412 - {"code":"precondition_failed","message":"The stock has changed: If-Match does not hold.","status":412}',
        'HTTP_1_1 404 - {"code":"not_found","message":"There is no pet with this petId.","status":404}',
      ]);
      expect({ connections, offers }).toEqual({ connections: 1, offers: 203 });
    }, 60_000);
  },
);
