import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { type Browser, type Page, chromium } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isInstalled, startProxy } from '../proxies/proxy.ts';
import { type TestService, startService } from '../support/service.ts';

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

/** Milliseconds from the click until the page has shown the list and is free again. */
const TIME_OF_LIST = `new Promise((done) => {
  const block = document.querySelector('${LIST}');
  block.querySelector('.btn-clear')?.click();
  const start = performance.now();
  block.querySelector('.execute').click();
  const look = () =>
    block.querySelector('.live-responses-table .shown-of')
      ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)))
      : requestAnimationFrame(look);
  requestAnimationFrame(look);
})`;

/** Finds elements that stick out of the page or of their box, and buttons that cover a text. */
const MISPLACED = `(() => {
  const found = [];
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) found.push('the page is wider than the screen');
  for (const each of document.querySelectorAll('.swagger-ui .opblock *')) {
    const box = each.getBoundingClientRect();
    const edge = each.closest('.opblock').getBoundingClientRect().right;
    if (box.width > 0 && box.right > edge + 1) found.push(each.className + ' sticks out');
  }
  for (const button of document.querySelectorAll('.live-responses-table button, .curl-command button, .current-tag')) {
    const one = button.getBoundingClientRect();
    for (const text of document.querySelectorAll('.opblock pre, .opblock input, .opblock textarea')) {
      const other = text.getBoundingClientRect();
      const apart = one.right <= other.left || one.left >= other.right || one.bottom <= other.top || one.top >= other.bottom;
      if (!apart) found.push(button.className + ' lies on ' + text.className);
    }
  }
  return found;
})()`;

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
  beforeEach(() =>
    service.stock([1, 12], [2, 7], [3, 0, 'sold'], [4, 3, 'pending'], ['9223372036854775807', 7, 'pending']),
  );
  afterAll(() => browser.close());

  it.each([
    { name: 'desktop', viewport: { width: 1200, height: 860 }, isMobile: false },
    { name: 'phone', viewport: { width: 390, height: 844 }, isMobile: true },
  ])('serves a $name: 401 without a key, then list, update and 400', async (screen) => {
    const context = await browser.newContext({ ...screen, hasTouch: screen.isMobile });
    const page = await context.newPage();
    const complaints = watch(page);
    await page.goto(`http://${HOST}:${service.port}/`);
    expect(new URL(page.url()).pathname).toBe('/docs');
    expect(await page.title()).toBe('Pet store inventory');

    expect(await list(page)).toEqual({ status: '401', body: containing('"unauthorized"') });
    await authorize(page, `  Bearer ${service.key}\t`);
    expect(await list(page)).toEqual({ status: '200', body: containing('"petId": 9223372036854775807,') });
    await page.locator(`${LIST} .live-responses-table`).scrollIntoViewIfNeeded();
    if (PICTURES) await page.screenshot({ path: `${PICTURES}/swagger-ui-${screen.name}-list.png` });

    expect(await update(page, '9223372036854775807', 8)).toEqual({
      status: '200',
      body: '{\n  "petId": 9223372036854775807,\n  "quantity": 8,\n  "status": "pending"\n}',
    });
    // An invalid petId is not sent: the last response disappears, and the field says why.
    for (const [petId, reason] of [
      ['abc', 'Value must be an integer'],
      ['', 'Required field is not provided'],
    ] as const) {
      expect((await update(page, '1', 12)).status).toBe('200');
      await page.locator('[data-param-name="petId"] input').fill(petId);
      await page.locator('[data-param-name="petId"] input').blur();
      await page.locator(`${UPDATE} .execute`).click();
      expect(await page.locator('[data-param-name="petId"] .field-error').innerText()).toBe(reason);
      expect(await page.locator(`${UPDATE} .live-responses-table`).count()).toBe(0);
    }
    for (const [quantity, ifMatch, status, text] of [
      [-1, '', '400', '"validation_failed"'],
      [1, '"sold-0"', '412', '"precondition_failed"'],
      [1, 'available-12', '400', 'If-Match must be'],
    ] as const) {
      expect(await update(page, '1', quantity, ifMatch)).toEqual({ status, body: containing(text) });
    }
    // The page knows the tag of pet 2 from the list, and the tag of pet 1 from the refused update.
    expect((await update(page, '2', 12, { use: '"available-7"' })).status).toBe('200');
    expect((await update(page, '1', 12, { use: '"available-12"' })).status).toBe('200');

    // The second update repeats the first one with the same key and tag: nothing is written.
    const keyField = page.locator('[data-param-name="Idempotency-Key"] input');
    await keyField.fill('0d6c2b1e-count-of-today');
    await keyField.blur();
    expect((await update(page, '4', 5, '"pending-3"')).status).toBe('200');
    expect((await update(page, '4', 5, '"pending-3"')).status).toBe('200');
    const headers = page.locator(`${UPDATE} .live-responses-table .headerline`);
    expect(await headers.allInnerTexts()).toContainEqual(containing('idempotent-replayed: true'));
    expect((await update(page, '4', 6, '"pending-3"')).status).toBe('409');

    expect((await list(page)).status).toBe('200');
    await page.locator('[data-param-name="If-None-Match"] .current-tag').click();
    await page.locator(`${LIST} .execute`).click();
    await page.locator(`${LIST} .response-col_status`, { hasText: '304' }).first().waitFor();

    expect(await page.evaluate(MISPLACED)).toEqual([]);
    expect(complaints).toEqual([]);
    await context.close();
  });

  it('shows the first of 100,000 pets within a second, and saves them all', async () => {
    const own = await startService();
    await own.sql(
      `INSERT INTO inventory_item SELECT 9223372036854775807 - n, n % 50, 'available' FROM generate_series(0, 99999) n`,
    );
    const { text: all } = await own.list(); // the service reads the stock before the page is timed
    const page = await browser.newPage({ viewport: { width: 1200, height: 860 } });
    await page.goto(`http://${HOST}:${own.port}/docs`);
    await authorize(page, own.key);
    const { body } = await list(page);
    // On a busy machine most times are longer, but not all.
    await expect.poll(() => page.evaluate<number>(TIME_OF_LIST), { timeout: 60_000 }).toBeLessThan(1_000);
    expect(JSON.parse(body)).toHaveLength(200);
    expect(body).toContain('"petId": 9223372036854675808,');
    const block = page.locator(`${LIST} .live-responses-table .highlight-code`);
    expect(await block.locator('.shown-of').innerText()).toBe('The first 200 of 100,000 are shown; Download has all.');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      block.getByRole('button', { name: 'Download' }).click(),
    ]);
    expect(all.length).toBeGreaterThan(5_000_000);
    expect((await readFile(await download.path(), 'utf8')) === all).toBe(true);
    await page.close();
    await own.stop();
  });

  it('forgets the key with the page, and opens a linked operation', async () => {
    const page = await browser.newPage();
    await page.goto(`http://${HOST}:${service.port}/docs`);
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
      if (!/the server responded with a status of (400|401|409|412)/.test(message.text()))
        complaints.push(message.text());
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

/** @param ifMatch the precondition to type, or the tag whose button to use */
function update(page: Page, petId: string, quantity: number, ifMatch: string | { use: string } = '') {
  return execute(page, UPDATE, async () => {
    const row = page.locator('[data-param-name="If-Match"]');
    await page.locator('[data-param-name="petId"] input').fill(petId);
    await page.locator('[data-param-name="petId"] input').blur();
    if (typeof ifMatch === 'string') await row.locator('input').fill(ifMatch);
    else await row.getByRole('button', { name: `Use ${ifMatch.use}`, exact: true }).click();
    await row.locator('input').blur();
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
