import { existsSync } from 'node:fs';
import { type Browser, type Page, chromium } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isInstalled, startProxy } from '../proxies/proxy.ts';
import { type TestService, startService } from '../../test/support/service.ts';

const BROWSERS = [
  chromium.executablePath(),
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];
const executablePath = BROWSERS.find((path) => existsSync(path));
if (!executablePath) console.warn('No Chromium or Chrome was found: Swagger UI is not tested.');

/** A browser is stricter with plain http to a host name than to an address of this machine. */
const HOST = 'inventory.test';
/** With PICTURES=docs/images, the trial renews the picture in the README. */
const PICTURES = process.env['PICTURES'];

const LIST = '#operations-Inventory-listInventory';
const UPDATE = '#operations-Inventory-updateInventory';

describe.skipIf(!executablePath)('Swagger UI', { timeout: 180_000 }, () => {
  let service: TestService;
  let browser: Browser;

  beforeAll(async () => {
    service = await startService();
    browser = await chromium.launch({
      executablePath: executablePath ?? '',
      args: ['--no-sandbox', `--host-resolver-rules=MAP ${HOST} 127.0.0.1`],
    });
  });
  beforeEach(() => service.stock([1, 12], [2, 7], ['9223372036854775807', 7, 'pending']));
  afterAll(() => browser.close());

  it('lists and updates with every digit of a petId', async () => {
    const page = await browser.newPage({ viewport: { width: 1200, height: 860 } });
    const complaints = watch(page);
    await page.goto(`http://${HOST}:${service.port}/`);
    expect(new URL(page.url()).pathname).toBe('/docs');
    expect(await page.title()).toBe('Pet store inventory');

    expect(await list(page)).toEqual({ status: '401', body: containing('"unauthorized"') });
    await authorize(page, service.key);
    expect(await list(page)).toEqual({ status: '200', body: containing('"petId": 9223372036854775807,') });
    const shown = page.locator(`${LIST} .live-responses-table`);
    if (PICTURES) await shown.screenshot({ path: `${PICTURES}/swagger-ui-desktop-list.png` });

    expect(await update(page, '9223372036854775807', 8)).toEqual({
      status: '200',
      body: '{\n  "petId": 9223372036854775807,\n  "quantity": 8,\n  "status": "pending"\n}',
    });
    expect((await update(page, '1', 13, '"available-11"')).status).toBe('412');
    expect((await update(page, '1', 13, '"available-12"')).status).toBe('200');
    expect(complaints).toEqual([]);
    await page.close();
  });

  it('fits a phone of 390 pixels: nobody has to scroll to the side to authorize, list and update', async () => {
    const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
    const page = await browser.newPage(phone);
    const expectFits = async () => {
      const widths = await page.evaluate('[innerWidth, document.documentElement.scrollWidth]');
      expect(widths).toEqual([390, 390]);
    };
    await page.goto(`http://${HOST}:${service.port}/docs`);
    for (const part of ['.auth-wrapper .authorize', LIST, UPDATE]) await page.locator(part).waitFor();
    await expectFits();
    await authorize(page, service.key);
    expect((await list(page)).status).toBe('200');
    await expectFits();
    expect((await update(page, '2', 8, '"available-7"')).status).toBe('200');
    await expectFits();
    const answer = page.locator(`${UPDATE} .live-responses-table .highlight-code`).first();
    const text = await answer.locator('code').boundingBox();
    for (const button of ['.copy-to-clipboard', '.download-contents']) {
      const box = await answer.locator(button).boundingBox();
      expect(box?.y).toBeGreaterThan((text?.y ?? NaN) + (text?.height ?? NaN)); // it lies below the text
    }
    await page.close();
  });

  it('forgets the key with the page, says so where it asks for the key, and opens a linked operation', async () => {
    const page = await browser.newPage();
    await page.goto(`http://${HOST}:${service.port}/docs`);
    await page.locator('.auth-wrapper .authorize').click();
    expect(await page.locator('.auth-container .renderedMarkdown').innerText()).toBe(
      'Your API key. This page forgets it when you reload it: no browser keeps a key.',
    );
    await page.locator('.modal-ux .close-modal').click();
    await authorize(page, service.key);
    await page.goto(`http://${HOST}:${service.port}/docs#/Inventory/updateInventory`);
    await page.reload();
    await page.locator(`${UPDATE} .opblock-body`).waitFor();
    expect(await page.locator('.auth-wrapper .authorize.unlocked').count()).toBe(1);
    expect(await page.evaluate('localStorage.length + sessionStorage.length')).toBe(0);
    await page.close();
  });

  it.skipIf(!isInstalled('nginx'))('works behind a proxy that puts a prefix in front of all paths', async () => {
    const { port } = await startProxy('nginx', service.port, [
      ['location / {', 'location /shop/ {'],
      ['proxy_pass http://inventory;', 'proxy_pass http://inventory/;'],
    ]);
    for (const path of ['/shop/', '/shop/docs/']) {
      const response = await fetch(`http://127.0.0.1:${port}${path}`);
      expect([response.status, new URL(response.url).pathname]).toEqual([200, '/shop/docs']);
    }
    const page = await browser.newPage();
    const complaints = watch(page, port);
    await page.goto(`http://${HOST}:${port}/shop/`);
    expect(new URL(page.url()).pathname).toBe('/shop/docs');
    await authorize(page, service.key);
    const listed = page.waitForRequest((request) => request.method() === 'GET' && request.url().endsWith('/inventory'));
    expect((await list(page)).status).toBe('200');
    expect(new URL((await listed).url()).pathname).toBe('/shop/v1/inventory');
    expect((await update(page, '1', 13)).status).toBe('200');
    expect(complaints).toEqual([]);
    await page.close();
  });

  /** Collects requests to other hosts, failed requests, errors and warnings of the page. */
  function watch(page: Page, port = service.port): string[] {
    const complaints: string[] = [];
    const origin = `http://${HOST}:${port}`;
    page.on('request', (request) => {
      if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith('data:')) complaints.push(request.url());
    });
    page.on('requestfailed', (request) => complaints.push(`${request.url()} failed`));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => {
      // A browser reports every refused request. The test expects these.
      if (!/the server responded with a status of (401|412)/.test(message.text())) complaints.push(message.text());
    });
    return complaints;
  }
});

async function authorize(page: Page, key: string): Promise<void> {
  await page.locator('.auth-wrapper .authorize').click();
  await page.locator('.auth-container input').fill(key);
  await page.locator('.auth-btn-wrapper .authorize').click();
  await page.locator('.auth-btn-wrapper .btn-done').click();
}

function containing(text: string): string {
  return expect.stringContaining(text) as string;
}

function list(page: Page) {
  return execute(page, LIST);
}

/** @param tag for `If-Match` */
function update(page: Page, petId: string, quantity: number, tag = '') {
  return execute(page, UPDATE, async () => {
    await page.locator('[data-param-name="petId"] input').fill(petId);
    await page.locator('[data-param-name="petId"] input').blur();
    await page.locator('[data-param-name="If-Match"] input').fill(tag);
    await page.locator('[data-param-name="If-Match"] input').blur();
    await page.locator('.body-param__text').fill(`{"quantity": ${quantity}}`);
  });
}

/** Opens an operation, fills it in, sends it, and reads the response that the page shows. */
async function execute(page: Page, operation: string, fill?: () => Promise<void>) {
  const block = page.locator(operation);
  await block.waitFor();
  if (!(await block.locator('.opblock-body').isVisible())) await block.locator('.opblock-summary-control').click();
  await fill?.();
  const clear = block.locator('.btn-clear');
  if (await clear.isVisible()) await clear.click();
  await block.locator('.execute').click();
  const shown = block.locator('.live-responses-table');
  return {
    status: (await shown.locator('.response-col_status').last().innerText()).trim(),
    body: await shown.locator('.highlight-code .microlight').first().innerText(),
  };
}
