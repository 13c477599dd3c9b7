import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { ask } from '../support/http-client.ts';
import { ServiceProcess } from '../support/service-process.ts';
import { itemText } from '../support/stock.ts';
import { SERVICES } from './services.ts';

const PETS = 200_000;
const READERS = 8;

/** How long a probe may take. Other tests run beside: they make everything slow. */
const BUSY_MS = 3_000;

it.each(SERVICES)(
  '%s sends a long list to eight readers at once while updates are made and the process answers',
  async (_, FAST) => {
    const database = await createDatabase();
    await database.fill(`SELECT n, 0, 'available' FROM generate_series(1, ${PETS}) n`);
    await database.sql('ANALYZE inventory_item');
    const key = randomBytes(32).toString('hex');
    const settings = {
      DATABASE_URL: database.url,
      BOOTSTRAP_API_KEY: key,
      LOG_LEVEL: 'warn',
      FAST,
      REQUEST_DEADLINE_MS: '9000',
    };
    const service = await ServiceProcess.running(settings);
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const seen = { slowestProbeMs: 0, mostMb: 0, updates: [] as number[] };
    let isReading = true as boolean;
    const probe = async () => {
      while (isReading) {
        const from = performance.now();
        await service.health('live');
        seen.slowestProbeMs = Math.max(seen.slowestProbeMs, performance.now() - from);
        seen.mostMb = Math.max(seen.mostMb, service.residentMb());
        await pause(20);
      }
    };
    const update = async () => {
      for (let quantity = 1; isReading; quantity++) {
        const body = `{"quantity":${quantity}}`;
        seen.updates.push(
          (await ask(service.port, { method: 'PATCH', target: '/v1/inventory/7', headers, body })).status,
        );
      }
    };
    const beside = Promise.all([probe(), update()]);
    const from = performance.now();
    const lists = await Promise.all(
      Array.from({ length: READERS }, async () => {
        const response = await fetch(`${service.url}/v1/inventory`, { headers });
        let length = 0;
        for await (const chunk of response.body ?? []) length += (chunk as Uint8Array).length; // no text: it would delay the probe
        return { status: response.status, length, tookMs: performance.now() - from };
      }),
    );
    isReading = false;
    await beside;
    const [whole] = await database.sql<{ length: number }>(
      `SELECT (sum(length(pet_id::text)) + count(*) * ${itemText(0, 0).length - '00'.length + ','.length} + 1)::int AS length FROM inventory_item`,
    );
    const digits = lists.map(({ length }) => length - Number(whole?.length)); // of the quantities, of which one changes
    expect(lists.map(({ status }) => status)).toEqual(lists.map(() => 200));
    for (const count of digits) expect(count - PETS).toBeOneOf([0, 1, 2, 3]);
    for (const { tookMs } of lists) expect(tookMs).toBeLessThan(25_000);
    expect(new Set(seen.updates)).toEqual(new Set([200]));
    expect(seen.mostMb).toBeLessThan(512);
    expect(seen.slowestProbeMs).toBeLessThan(BUSY_MS);
  },
);
