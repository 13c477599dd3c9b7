import type { ApiKey, PrismaClient } from '../generated/prisma/client.ts';
import { Failure } from '../lib/postgres/index.ts';
import { makeKey, makeKeyId, sha256OfKey } from './api-key-format.ts';
import { SCOPES } from './scopes.ts';

export type KeyRecord = Omit<ApiKey, 'keySha256' | 'successorId'>;
export interface KeyWithState {
  readonly id: string;
  readonly state: 'live' | 'expired' | 'revoked';
}

/** By the database's clock: by another clock a revocation could lie in the future. */
const KEY_STATE = `CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                     WHEN expires_at <= clock_timestamp() THEN 'expired' ELSE 'live' END`;

const RECORD = `
  id, name, scopes, created_at AS "createdAt", expires_at AS "expiresAt", revoked_at AS "revokedAt", last_used_at AS "lastUsedAt"`;

type NewKey = Pick<ApiKey, 'id' | 'name' | 'scopes' | 'expiresAt'>;
/** @returns the key to be shown once: it is stored nowhere */
export async function createKey(prisma: PrismaClient, { id, name, scopes, expiresAt }: NewKey) {
  const key = makeKey();
  // In SQL, because Prisma would fill in created_at by the clock of this machine. Of a Date, Prisma sends no time zone.
  const [record] = await prisma.$queryRawUnsafe<[KeyRecord]>(
    `INSERT INTO api_key (id, name, scopes, key_sha256, expires_at) VALUES ($1, $2, $3, $4, $5::timestamptz) RETURNING ${RECORD}`,
    ...[id, name, scopes, sha256OfKey(key), expiresAt?.toISOString()],
  );
  return { key, record };
}

export function listKeys(prisma: PrismaClient): Promise<(KeyRecord & KeyWithState)[]> {
  return prisma.$queryRawUnsafe(`SELECT ${RECORD}, ${KEY_STATE} AS state FROM api_key ORDER BY created_at, id`);
}

/** Revokes a key for good. Revoking it again keeps the first time. */
export async function revokeKey(prisma: PrismaClient, id: string): Promise<KeyRecord> {
  const [record] = await prisma.$queryRawUnsafe<KeyRecord[]>(
    `UPDATE api_key SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = $1 RETURNING ${RECORD}`,
    id,
  );
  return record ?? refuse(prisma, id);
}

export interface Rotation extends Pick<NewKey, 'id' | 'expiresAt'> {
  readonly oldId: string;
  readonly overlapMs: number;
}

/**
 * Issues a successor with the same name and scopes; the old key stays good for the overlap and then expires.
 *
 * @throws Failure when the old key is not live, or has a successor that is not revoked
 */
export async function rotateKey(prisma: PrismaClient, { oldId, id, overlapMs, expiresAt }: Rotation) {
  const key = makeKey();
  // A rotation that has waited for another one sees the successor's id, but not yet its row.
  const [record] = await prisma.$queryRawUnsafe<(KeyRecord & { oldExpiresAt: Date })[]>(
    `WITH old AS (
       UPDATE api_key SET expires_at = least(expires_at, clock_timestamp() + $2 * interval '1 millisecond'), successor_id = $3
        WHERE id = $1 AND ${KEY_STATE} = 'live'
              AND (successor_id IS NULL OR successor_id IN (SELECT id FROM api_key WHERE revoked_at IS NOT NULL))
       RETURNING *
     )
     INSERT INTO api_key (id, name, scopes, key_sha256, expires_at)
     SELECT $3, name, scopes, $4, $5::timestamptz FROM old
     RETURNING ${RECORD}, (SELECT expires_at FROM old) AS "oldExpiresAt"`,
    ...[oldId, overlapMs, id, sha256OfKey(key), expiresAt?.toISOString()],
  );
  return { key, record: record ?? (await refuse(prisma, oldId)) };
}

/** Stores `BOOTSTRAP_API_KEY` with all scopes. A revoked or expired key stays so. */
export async function bootstrapKey(prisma: PrismaClient, token: string): Promise<KeyWithState> {
  const keySha256 = sha256OfKey(token);
  const [complete] = await prisma.$queryRawUnsafe<KeyWithState[]>(
    `SELECT id, ${KEY_STATE} AS state FROM api_key WHERE key_sha256 = $1 AND (revoked_at IS NOT NULL OR scopes @> $2)`,
    ...[keySha256, SCOPES],
  );
  if (complete) return complete; // without a write, because a standby takes none

  // A release may know more scopes than the one that first stored the key.
  const [stored] = await prisma.$queryRawUnsafe<[KeyWithState]>(
    `INSERT INTO api_key (id, name, key_sha256, scopes) VALUES ($1, 'bootstrap', $2, $3)
     ON CONFLICT (key_sha256) DO UPDATE
       SET scopes = CASE WHEN api_key.scopes @> excluded.scopes THEN api_key.scopes ELSE excluded.scopes END
     RETURNING id, ${KEY_STATE} AS state`,
    ...[makeKeyId(), keySha256, SCOPES],
  );
  return stored;
}

async function refuse(prisma: PrismaClient, id: string): Promise<never> {
  const [key] = await prisma.$queryRawUnsafe<(KeyWithState & { successorId: string | null })[]>(
    `SELECT id, ${KEY_STATE} AS state, successor_id AS "successorId" FROM api_key WHERE id = $1`,
    id,
  );
  if (!key) throw new Failure('no key has this id; "inventory keys list" shows them all');
  if (key.state !== 'live') throw new Failure(`key ${id} is ${key.state}; only a live key can be rotated`);
  throw new Failure(`key ${id} has the successor ${key.successorId}; rotate that one, or revoke it first`);
}
