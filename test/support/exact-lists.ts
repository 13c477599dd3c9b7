import { gunzipSync } from 'node:zlib';
import type { Client } from 'pg';
import { expect } from 'vitest';
import { Piece, StockList } from '../../src/inventory/list/stock-list.ts';
import type { TestService } from './service.ts';

/** The list of each service is the table's own JSON, and its tag that of a list that is written at once. */
export async function expectExact(owner: Client, services: readonly TestService[]): Promise<void> {
  const { rows } = await owner.query<{ text: string }>(
    `SELECT '[' || coalesce(string_agg(row_to_json(item)::text, ',' ORDER BY "petId"), '') || ']' AS text
       FROM (SELECT pet_id AS "petId", quantity, status FROM inventory_item) AS item`,
  );
  const text = String(rows[0]?.text);
  const written = new StockList(text === '[]' ? [] : Piece.cut(`,${text.slice(1, -1)}`));
  const lists = services.map(async ({ list }, at) => {
    const coding = at % 2 === 0 ? 'gzip' : 'identity';
    const { bytes, headers } = await list([['Accept-Encoding', coding]]);
    const seen = (coding === 'gzip' ? gunzipSync(bytes) : bytes).toString();
    expect(seen === text, `list ${at} of ${seen.length} bytes equals the table's of ${text.length}`).toBe(true);
    expect(headers['etag']).toBe(`"${written.tag(coding)}"`);
  });
  await Promise.all(lists);
}

/** Three pieces of a list: from 1, 750 and 1,402. */
export const PETS = 1_500;

/** Gives the store the pets from 1 to this number, with the history of what changes. */
export async function refill(owner: Client, pets = PETS): Promise<void> {
  await owner.query(`DELETE FROM inventory_item WHERE pet_id NOT BETWEEN 1 AND ${pets};
    INSERT INTO inventory_item AS i SELECT n, n, 'available' FROM generate_series(1, ${pets}) n ORDER BY random()
    ON CONFLICT (pet_id) DO UPDATE SET quantity = excluded.quantity, status = excluded.status
      WHERE (i.quantity, i.status) <> (excluded.quantity, excluded.status)`);
}
