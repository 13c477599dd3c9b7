import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { SwaggerModule } from '@nestjs/swagger';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { refused, whole } from './support/answers.ts';
import { Connection, ask } from './support/http-client.ts';
import { type TestService, startService } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});

/** What the page gives to Swagger UI. */
interface Page {
  readonly spec: { readonly paths: object };
  readonly validatorUrl: unknown;
  readonly plugins: [
    (system: object) => { wrapComponents: { responseBody: (original: unknown) => (props: object) => object } },
  ];
}

const get = (target: string) => ask(service.port, { target });

describe('GET /openapi.json', () => {
  it('is the document that is checked in; "npx vitest run test/openapi -u" rewrites it', async () => {
    const answer = await get('/openapi.json');
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    await expect(answer.text).toMatchFileSnapshot('../openapi.json');
  });

  it('is made once, because that takes long', async () => {
    await get('/openapi.json');
    const made = vi.spyOn(SwaggerModule, 'createDocument');
    onTestFinished(() => made.mockRestore());
    expect((await get('/openapi.json')).status).toBe(200);
    expect(made).not.toHaveBeenCalled();
  });
});

describe('GET /docs', () => {
  it.each([
    ['/', 'docs'],
    ['/docs/', '../docs'],
    ['/docs/index.html', '../docs'],
  ])('is where %s redirects to, also behind a prefix', async (target, location) => {
    expect(await get(target)).toMatchObject({ status: 302, headers: { location, 'content-length': '0' } });
    for (const prefix of ['', '/shop', '/a/b'])
      expect(new URL(location, `http://a${prefix}${target}`).pathname).toBe(`${prefix}/docs`);
  });

  it.each([
    ['/docs/swagger-ui.css', 'text/css; charset=utf-8'],
    ['/docs/swagger-ui-bundle.js', 'text/javascript; charset=utf-8'],
    ['/docs/swagger-ui-standalone-preset.js', 'text/javascript; charset=utf-8'],
    ['/docs/favicon-32x32.png', 'image/png'],
  ])('has the file %s, which a browser keeps and asks for anew', async (target, type) => {
    const { status, headers, bytes } = await get(target);
    expect({ status, type: headers['content-type'] }).toEqual({ status: 200, type });
    expect(bytes.equals(readFileSync(`node_modules/swagger-ui-dist/${target.slice('/docs/'.length)}`))).toBe(true);
    const etag = `"${hash('sha256', bytes, 'base64url')}"`;
    expect(headers).toMatchObject({ 'cache-control': 'public, no-cache', etag });
    expect((await ask(service.port, { target, headers: { 'If-None-Match': '"x"' } })).status).toBe(200);
    const again = await ask(service.port, { target, headers: { 'If-None-Match': `"x", W/${etag}` } });
    expect([again.status, again.text, again.headers['etag']]).toEqual([304, '', etag]);
  });

  it('keeps the connection behind a 304', async () => {
    const etag = String((await get('/openapi.json')).headers['etag']);
    const connection = await Connection.open(service.port);
    connection.send(`GET /openapi.json HTTP/1.1\r\nHost: a\r\nIf-None-Match: ${etag}\r\n\r\n`.repeat(2));
    for (let n = 0; n < 2; n++) expect((await connection.answer()).status).toBe(304);
  });

  it('has a page whose parts are all there, under relative addresses', async () => {
    const { text } = await get('/docs');
    const links = Array.from(text.matchAll(/(?:href|src)=["'](.+?)["']/g), ([, link = '']) => link);
    expect(links.length).toBeGreaterThan(4);
    for (const link of links) {
      expect(link).toMatch(/^\.\/docs\//);
      expect((await get(new URL(link, 'http://a/docs').pathname)).status).toBe(200);
    }
    expect(text).toContain('<title>Pet store inventory</title>');
  });

  it('gives Swagger UI a document without bounds that it would round, and a plugin', async () => {
    const window = { location: { search: '', origin: 'http://a' }, onload: () => undefined };
    const SwaggerUIBundle = Object.assign(vi.fn<(options: Page) => void>(), { presets: {}, plugins: {} });
    const script = (await get('/docs/swagger-ui-init.js')).text;
    runInNewContext(script, { window, SwaggerUIBundle, SwaggerUIStandalonePreset: {} });
    window.onload();
    const [[{ spec, plugins, validatorUrl }]] = SwaggerUIBundle.mock.calls as [[Page]];
    expect(validatorUrl).toBeNull();
    expect(JSON.stringify(spec)).not.toMatch(/"m\w+imum":-?9/);
    expect(spec.paths).toHaveProperty(['/inventory/{petId}', 'patch', 'parameters', 1, 'schema'], { type: 'string' });

    const h = (of: string, props: object, ...children: unknown[]) => ({ of, props, children });
    const React = { createElement: h, Fragment: '', useMemo: (make: () => unknown) => make() };
    const { wrapComponents } = plugins[0]({ React });
    const props = { contentType: 'application/json', getComponent: (name: string) => name };
    const shown = wrapComponents.responseBody('')({ ...props, content: '[{"petId":9223372036854775807}]' });
    expect(JSON.stringify(shown)).toContain(JSON.stringify('[\n  {\n    "petId": 9223372036854775807\n  }\n]'));
  });

  it('may load from and send to its own origin only, also over plain HTTP', async () => {
    const { headers } = await get('/docs');
    expect(headers).toMatchObject({
      'content-security-policy':
        "default-src 'none';script-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data:;connect-src 'self';" +
        "base-uri 'none';form-action 'none';frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'x-request-id': expect.stringMatching(/^[\w-]+$/) as string,
    });
    expect(headers).not.toHaveProperty('strict-transport-security');
  });

  it.each(['swagger-ui.js', 'package.json', '../package.json'])('has no file %s', async (file) => {
    expect(whole(await get(`/docs/${file}`))).toEqual(refused.noRoute);
  });

  it.each(['/', '/docs/swagger-ui-bundle.js'])('accepts only GET and HEAD at %s', async (target) => {
    expect(whole(await ask(service.port, { method: 'POST', target }))).toEqual(refused.method('GET, HEAD, OPTIONS'));
    const head = await ask(service.port, { method: 'HEAD', target });
    expect(head.bytes).toHaveLength(0);
    expect(head.headers['content-length']).toBe((await get(target)).headers['content-length']);
  });
});
