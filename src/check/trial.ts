import { randomUUID } from 'node:crypto';
import { failureOf, NOT_NEWEST } from '../database-errors.ts';
import { updateStatement } from '../inventory/fast/update-statement.ts';
import { itemTag } from '../inventory/item.ts';
import { MAX_QUANTITY } from '../inventory/item-limits.ts';
import { Failure, type Query, RefusedValue } from '../lib/postgres/index.ts';
import { CHECK_KEYS_AND_SNAPSHOT } from '../keys/key-check.ts';
import { type Finding, fault, missing, ok, partsOf, warn } from './checks.ts';

const WITHIN_MS = 3_000;
const SETTINGS = `SET LOCAL idle_in_transaction_session_timeout = ${WITHIN_MS}; SET LOCAL "inventory.life" = '';
  SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout'`;

const ROLE = `
  SELECT current_user AS role, pg_is_in_recovery() AS "isStandby",
         (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('inventory_item')) AS "isOwner"`;
type Role = Readonly<{ role: string; isStandby: boolean; isOwner: boolean }>;

const FREE_PET = `
  SELECT pet_id, quantity, status, extract(epoch FROM clock_timestamp()) * 1000 + ${WITHIN_MS} AS until
    FROM inventory_item WHERE pet_id = ANY (ARRAY(SELECT pet_id FROM inventory_item ORDER BY pet_id LIMIT 100))
   ORDER BY pet_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`;
type Pet = Readonly<{ pet_id: string; quantity: number; status: string; until: string }>;

const LIST = `
  SELECT stock_witness($1), (SELECT count((pet_id, quantity, status))
                               FROM (SELECT * FROM inventory_item ORDER BY pet_id LIMIT 1000) AS items)`;

const CHANGES = `
  SELECT count(*)::int AS changes FROM stock_change
   WHERE changed_in = pg_current_xact_id() AND pet_id = $1 AND quantity_before = $2 AND quantity_after = $3`;

/**
 * Does what requests do, in one transaction that is rolled back.
 *
 * @param begin begins it, with its settings
 */
export async function tryRequests(query: Query, begin: string): Promise<Finding> {
  const over = performance.now() + WITHIN_MS;
  const run: Query = async (sql, ...values) => {
    await query(`SET LOCAL statement_timeout = ${Math.max(1, Math.round(over - performance.now()))}`);
    return query(sql, ...values);
  };
  const faults: string[] = [];
  const refusals: string[] = [];
  const attempt = async (what: string, work: () => Promise<void>, mayBeRefused = false) => {
    await query('SAVEPOINT attempt');
    try {
      await work();
    } catch (error) {
      const { outcome, words } = failureOf(error);
      const isRefused = mayBeRefused && outcome === 'refused';
      const [first, ...rest] = words === NOT_NEWEST ? missing(error) : partsOf(words);
      (isRefused ? refusals : faults).push(
        `${what}${isRefused ? ' is refused by a rule of yours' : ''}: ${first}`,
        ...rest,
      );
    }
    await query('ROLLBACK TO SAVEPOINT attempt');
  };
  await query(`${begin}; ${SETTINGS}`);
  try {
    const [{ role, isStandby, isOwner }] = (await run(ROLE)) as [Role];
    if (isStandby) return warn('nothing was tried: this server is a standby');
    await attempt('key check and list', async () => {
      const [{ life }] = (await run(CHECK_KEYS_AND_SNAPSHOT, '{}')) as [{ life: string | null }];
      if (life === null)
        throw new Failure('the functions do not find the tables; give the schema its old name (ALTER SCHEMA … RENAME)');
      await run(LIST, life);
    });
    const [pet] = faults.length > 0 ? [] : ((await run(FREE_PET)) as Pet[]);
    if (pet) {
      const { pet_id, quantity, status, until } = pet;
      const wanted = quantity < MAX_QUANTITY ? quantity + 1 : quantity - 1;
      const update = (what: string, mayBeRefused: boolean, write: () => Promise<void>) =>
        attempt(
          `${what} of pet ${pet_id} to ${wanted}`,
          async () => {
            await write();
            await run('SET CONSTRAINTS ALL IMMEDIATE');
            const [{ changes }] = (await run(CHANGES, pet_id, quantity, wanted)) as [{ changes: number }];
            if (changes !== 1) throw new Failure(`${changes} rows of the history say it, not one`);
          },
          mayBeRefused,
        );
      await update('the update by SQL', true, async () => {
        const sql = 'UPDATE inventory_item SET quantity = $2 WHERE pet_id = $1 RETURNING quantity';
        const [written] = (await run(sql, pet_id, wanted)) as { quantity: number }[];
        if (written?.quantity !== wanted) throw new RefusedValue('a trigger changed the row or kept it back');
      });
      // A rule that refuses this value would have refused it by SQL, too.
      await update('the update by a request', refusals.length > 0, async () => {
        const [requestId, idempotencyKey] = [randomUUID(), randomUUID()];
        const changed = { petId: BigInt(pet_id), quantity: wanted, ifMatch: [itemTag({ quantity, status })] };
        const origin = { changedBy: 'command:check', requestId, idempotencyKey, reason: null };
        const { sql, values } = updateStatement([{ ...changed, ...origin }], Number(until), WITHIN_MS);
        const [answer] = (await run(sql, ...values)) as { outcome: string }[];
        if (answer?.outcome !== 'done') throw new Failure(`its outcome is ${answer?.outcome ?? 'unknown'}, not done`);
      });
    }
    const as = `tried as ${role}${isOwner ? ', the owner of the tables' : ''}`;
    if (faults.length > 0) return fault(as, ...faults, ...refusals);
    if (refusals.length > 0) return warn(as, ...refusals);
    const done = pet
      ? `${as}: a list and two updates`
      : `${as}: a list, but no update: the role sees no pet, or others hold the first hundred`;
    if (isOwner) return warn(done, 'if the service has a role of its own, run this as that role');
    return pet ? ok(done) : warn(done);
  } finally {
    await query('ROLLBACK');
  }
}
