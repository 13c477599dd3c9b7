import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ask } from './support/http-client.ts';
import { type TestService, startService } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

describe('/openapi.json', () => {
  it('is the document that is checked in (npm test -- -u openapi writes it anew)', async () => {
    const answer = await ask(service.port, { target: '/openapi.json' });
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    await expect(answer.text).toMatchFileSnapshot('../openapi.json');
  });
});
