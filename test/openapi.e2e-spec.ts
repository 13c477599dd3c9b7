import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { SwaggerModule } from '@nestjs/swagger';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { parse } from 'yaml';
import { refused, whole } from './support/answers.ts';
import { Connection, ask } from './support/http-client.ts';
import { type TestService, startService } from './support/service.ts';
import { ServiceProcess } from './support/service-process.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});

const PAGE = 'src/openapi/page';
const SWAGGER_UI = 'node_modules/swagger-ui-dist';
const get = (target: string) => ask(service.port, { target });

describe('GET /openapi.json', () => {
  it('is the document that is checked in; "npx vitest run test/openapi -u" rewrites it', async () => {
    const answer = await get('/openapi.json');
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    await expect(answer.text).toMatchFileSnapshot('../openapi.json');
  });

  it('is the same from the built service, whose decorators see what another compiler made of the types', async () => {
    const built = await ServiceProcess.running({ DATABASE_URL: service.databaseUrl });
    expect((await ask(built.port, { target: '/openapi.json' })).text).toBe((await get('/openapi.json')).text);
  });

  it('gives the bounds of an int64 to the last digit', async () => {
    const { text } = await get('/openapi.json');
    expect(text.match(/"m\w+imum": -?9\d+/g)).toEqual([
      ...['"minimum": -9223372036854775808', '"maximum": 9223372036854775807'],
      ...['"minimum": -9223372036854775808', '"maximum": 9223372036854775807'],
    ]);
  });

  it('describes the two operations and nothing else', async () => {
    const { paths } = JSON.parse((await get('/openapi.json')).text) as { paths: object };
    expect(paths).toEqual({
      '/inventory': { get: expect.objectContaining({ operationId: 'listInventory' }) as object },
      '/inventory/{petId}': { patch: expect.objectContaining({ operationId: 'updateInventory' }) as object },
    });
  });
});

describe('GET /openapi.yaml', () => {
  it('is the same document', async () => {
    const answer = await get('/openapi.yaml');
    expect(answer.headers['content-type']).toBe('application/yaml; charset=utf-8');
    expect(answer.text).toContain('maximum: 9223372036854775807\n');
    expect(answer.text).not.toMatch(/: [&*]/); // many readers know neither anchors nor aliases
    const made = vi.spyOn(SwaggerModule, 'createDocument');
    onTestFinished(() => made.mockRestore());
    await get('/openapi.yaml');
    expect(parse(answer.text)).toEqual(JSON.parse((await get('/openapi.json')).text));
    expect(made).not.toHaveBeenCalled(); // again: it takes long
  });
});

describe('GET /docs', () => {
  it.each([
    ['/', 'docs'],
    ['/docs/', '../docs'],
  ])('is where %s redirects to, also behind a prefix', async (target, location) => {
    expect(await get(target)).toMatchObject({ status: 302, headers: { location, 'content-length': '0' } });
    for (const prefix of ['', '/shop', '/a/b'])
      expect(new URL(location, `http://a${prefix}${target}`).pathname).toBe(`${prefix}/docs`);
  });

  it.each([
    ['/docs', 'text/html; charset=utf-8', PAGE],
    ['/docs/docs.css', 'text/css; charset=utf-8', PAGE],
    ['/docs/docs.js', 'text/javascript; charset=utf-8', PAGE],
    ['/docs/swagger-ui.css', 'text/css; charset=utf-8', SWAGGER_UI],
    ['/docs/swagger-ui-bundle.js', 'text/javascript; charset=utf-8', SWAGGER_UI],
    ['/docs/favicon-32x32.png', 'image/png', SWAGGER_UI],
  ])('has the file %s, which a browser keeps and asks for anew', async (target, type, folder) => {
    const { status, headers, bytes } = await get(target);
    expect({ status, type: headers['content-type'] }).toEqual({ status: 200, type });
    const name = target === '/docs' ? 'docs.html' : target.slice('/docs/'.length);
    expect(bytes.equals(readFileSync(`${folder}/${name}`))).toBe(true);
    const etag = `"${hash('sha256', bytes, 'base64url')}"`;
    expect(headers).toMatchObject({ 'cache-control': 'public, no-cache', etag });
    expect((await ask(service.port, { target, headers: { 'If-None-Match': '"x"' } })).status).toBe(200);
    const again = await ask(service.port, { target, headers: { 'If-None-Match': `"x", W/${etag}` } });
    expect([again.status, again.text]).toEqual([304, '']);
    const kept = ['cache-control', 'content-security-policy', 'etag', 'x-frame-options']; // a browser takes them from the 304
    for (const name of kept) expect(again.headers[name]).toBe(headers[name]);
  });

  it('keeps the connection behind a 304', async () => {
    const etag = String((await get('/docs')).headers['etag']);
    const connection = await Connection.open(service.port);
    connection.send(`GET /docs HTTP/1.1\r\nHost: a\r\nIf-None-Match: ${etag}\r\n\r\n`.repeat(2));
    for (let n = 0; n < 2; n++) expect((await connection.answer()).status).toBe(304);
  });

  it('has a page whose parts are all there, in this order', async () => {
    const { text } = await get('/docs');
    const links = [...text.matchAll(/(?:href|src)="(.+?)"/g)].map(([, link = '']) => link);
    const scripts = ['openapi.json', 'docs/swagger-ui-bundle.js', 'docs/docs.js'];
    expect(links).toEqual(['docs/favicon-32x32.png', 'docs/swagger-ui.css', 'docs/docs.css', ...scripts]);
    for (const link of links) expect((await get(new URL(link, 'http://a/docs').pathname)).status).toBe(200);
    expect(text).toMatch(
      /^<!doctype html>\n<html lang="en">.+<meta charset="utf-8".+ name="viewport" content="width=device-width, initial-scale=1"/s,
    );
    expect(text.match(/<(title>.+?<|link rel="\w+)/g)?.map((part) => part.slice(1))).toEqual([
      ...['title>Pet store inventory<', 'link rel="icon', 'link rel="stylesheet', 'link rel="stylesheet'],
    ]);
    expect(text).toMatch(/<div id="docs"><\/div>.*<noscript>.+<a .+<script/s);
  });

  it('may load from and send to its own origin only, also over plain HTTP', async () => {
    const { headers } = await get('/docs');
    expect(headers).toMatchObject({
      'content-security-policy':
        "default-src 'none';script-src 'self';style-src 'self';img-src 'self' data:;connect-src 'self';" +
        "base-uri 'none';form-action 'none';frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'x-request-id': expect.stringMatching(/^[\w-]+$/) as string,
    });
    expect(headers).not.toHaveProperty('strict-transport-security');
  });

  it.each(['swagger-ui.js', 'package.json', 'index.html', '../package.json'])('has no file %s', async (file) => {
    expect(whole(await get(`/docs/${file}`))).toEqual(refused.noRoute);
  });

  it('ignores Range, so a range beyond the end is no failure', async () => {
    const headers = { Range: 'bytes=99999999-' };
    expect((await ask(service.port, { target: '/docs/docs.css', headers })).status).toBe(200);
  });

  it.each(['/', '/docs/swagger-ui-bundle.js'])('accepts only GET and HEAD at %s', async (target) => {
    expect(whole(await ask(service.port, { method: 'POST', target }))).toEqual(refused.method('GET, HEAD, OPTIONS'));
    const head = await ask(service.port, { method: 'HEAD', target });
    expect(head.bytes).toHaveLength(0);
    expect(head.headers['content-length']).toBe((await get(target)).headers['content-length']);
  });
});
