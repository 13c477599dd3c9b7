import type { Database } from '../../test/support/database.ts';
import type { Update } from './exchange.ts';

/** The store and the history, once no request is in flight. */
export interface FinalState {
  readonly readStart: number;
  readonly readEnd: number;
  readonly quantities: ReadonlyMap<number, number>;
  /** Each pet's changes in order, without the row of its import. */
  readonly changes: ReadonlyMap<number, readonly Change[]>;
}

export interface Change {
  readonly petId: number;
  readonly before: number;
  readonly after: number;
  readonly requestId: string | null;
}

/** An update that took place, or may have taken place. */
export interface Accepted {
  readonly update: Update;
  readonly outcome: 'done' | 'unknown';
}

/** Fills a store with so many pets, each with its number as its quantity. @returns them */
export async function fillStock(database: Database, count: number): Promise<Map<number, number>> {
  await database.sql(
    `INSERT INTO inventory_item (pet_id, quantity, status) SELECT n, n, 'available' FROM generate_series(1, ${count}) n`,
  );
  await database.sql('VACUUM ANALYZE inventory_item');
  return new Map(Array.from({ length: count }, (_, index) => [index + 1, index + 1]));
}

export async function readFinalState(database: Database): Promise<FinalState> {
  const readStart = performance.now();
  const items = await database.sql<{ petId: number; quantity: number }>(
    'SELECT pet_id::int AS "petId", quantity FROM inventory_item',
  );
  const readEnd = performance.now();
  const changes = await database.sql<Change>(
    `SELECT pet_id::int AS "petId", quantity_before AS before, quantity_after AS after, request_id AS "requestId"
       FROM stock_change WHERE quantity_before IS NOT NULL ORDER BY pet_id, id`,
  );
  return {
    readStart,
    readEnd,
    quantities: new Map(items.map(({ petId, quantity }) => [petId, quantity])),
    changes: Map.groupBy(changes, ({ petId }) => petId),
  };
}

/** The changes of a pet must lead from its first quantity to its last. Each must be an accepted update, once. */
export function brokenHistory(
  petId: number,
  first: number,
  state: FinalState,
  accepted: ReadonlyMap<number, Accepted>,
): string[] {
  const broken: string[] = [];
  let held = first;
  const written = new Set<number>();
  for (const { before, after, requestId } of state.changes.get(petId) ?? []) {
    const sent = accepted.get(after)?.update;
    if (before !== held) broken.push(`${before} → ${after} follows on ${held}`);
    if (sent?.petId !== petId) broken.push(`nobody's accepted update set ${after}`);
    if (sent?.expected !== undefined && sent.expected !== before) {
      broken.push(`${after} was to replace ${sent.expected} only, but replaced ${before}`);
    }
    if (requestId !== `q${after}`) broken.push(`${after} names request ${String(requestId)}`);
    if (written.has(after)) broken.push(`${after} was written twice`);
    written.add(after);
    held = after;
  }
  const left = state.quantities.get(petId);
  if (held !== left) broken.push(`it ends with ${held}, the store has ${String(left)}`);
  return broken.map((sentence) => `history of pet ${petId}: ${sentence}`);
}

/** Acknowledged updates without a history row. */
export function lostUpdates(state: FinalState, accepted: ReadonlyMap<number, Accepted>): string[] {
  const found = new Set([...state.changes.values()].flat().map(({ after }) => after));
  return [...accepted.values()]
    .filter(({ update, outcome }) => outcome === 'done' && !found.has(update.quantity))
    .map(({ update }) => `lost update: pet ${update.petId} := ${update.quantity} was acknowledged`);
}
