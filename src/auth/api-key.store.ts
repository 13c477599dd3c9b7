import type { ApiKey, PrismaClient } from '../generated/prisma/client.js';
import { makeKey, makeKeyId, sha256OfKey } from './api-key.format.js';
import { SCOPES, type Scope } from './scopes.js';

/** What may be told of a key: everything but its hash. */
export type KeyRecord = Omit<ApiKey, 'keySha256'>;
export type KeyState = 'live' | 'expired' | 'revoked';

export interface IssuedKey {
  /** To be shown once: it is stored nowhere. */
  readonly key: string;
  readonly record: KeyRecord;
}

/** What was asked of a key cannot be done; the message is one line for the operator. */
export class KeyRefusal extends Error {}

const BOOTSTRAP_NAME = 'bootstrap';
const omit = { keySha256: true } as const;

/**
 * Issues a key.
 *
 * @param expiresAt refused from this moment on; null lives until revoked
 */
export function createKey(
  prisma: PrismaClient,
  { name, scopes, expiresAt }: { name: string; scopes: readonly Scope[]; expiresAt: Date | null },
): Promise<IssuedKey> {
  return issue(prisma, { name, scopes: [...scopes], expiresAt });
}

/** All keys, oldest first, with the database's own time for {@link stateOfKey}. */
export async function listKeys(prisma: PrismaClient): Promise<{ keys: KeyRecord[]; now: Date }> {
  const keys = await prisma.apiKey.findMany({ omit, orderBy: [{ createdAt: 'asc' }, { id: 'asc' }] });
  return { keys, now: await databaseTime(prisma) };
}

export function stateOfKey({ revokedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'expiresAt'>, now: Date): KeyState {
  if (revokedAt) return 'revoked';
  return expiresAt && expiresAt <= now ? 'expired' : 'live';
}

/**
 * Revokes a key for good, in every process from its next request on. Revoking it again keeps the first time.
 *
 * @throws KeyRefusal when there is no such key
 */
export async function revokeKey(prisma: PrismaClient, id: string): Promise<KeyRecord> {
  const revokedAt = await databaseTime(prisma);
  await prisma.apiKey.updateMany({ where: { id, revokedAt: null }, data: { revokedAt } });
  return findKey(prisma, id);
}

/**
 * Issues a successor with the same name and scopes; the old key stays good for the overlap and then expires.
 *
 * @param overlapMs how long both are good, 0 or more
 * @throws KeyRefusal when there is no such key or it is not live
 */
export async function rotateKey(
  prisma: PrismaClient,
  id: string,
  { overlapMs, expiresAt }: { overlapMs: number; expiresAt: Date | null },
): Promise<IssuedKey & { oldExpiresAt: Date }> {
  return prisma.$transaction(async (transaction) => {
    // Held until the end: of two rotations, or a rotation and a revocation, the later one sees what the earlier one did.
    await transaction.$executeRaw`SELECT 1 FROM api_key WHERE id = ${id} FOR UPDATE`;
    const now = await databaseTime(transaction);
    const old = await findKey(transaction, id);
    const state = stateOfKey(old, now);
    if (state !== 'live') throw new KeyRefusal(`key ${id} is ${state}; only a live key can be rotated`);
    const oldExpiresAt = earlier(old.expiresAt, new Date(now.getTime() + overlapMs));
    await transaction.apiKey.update({ where: { id }, data: { expiresAt: oldExpiresAt } });
    const issued = await issue(transaction, { name: old.name, scopes: old.scopes, expiresAt });
    return { ...issued, oldExpiresAt };
  });
}

/**
 * Makes the token of `BOOTSTRAP_API_KEY` a key with all scopes. Any number of processes may do so at once, and again at
 * every start. A key that was revoked or has expired stays so: the caller is told and should say it in the log.
 */
export async function bootstrapKey(prisma: PrismaClient, token: string): Promise<{ id: string; state: KeyState }> {
  const keySha256 = sha256OfKey(token);
  const scopes = [...SCOPES];
  const stored = await prisma.apiKey.findUnique({ where: { keySha256 } });
  // Nothing is written where nothing is missing: a standby takes no writes.
  if (stored === null) {
    const data = { id: makeKeyId(), name: BOOTSTRAP_NAME, keySha256, scopes };
    await prisma.apiKey.createMany({ data, skipDuplicates: true });
  } else if (stored.revokedAt === null && !scopes.every((scope) => stored.scopes.includes(scope))) {
    // A release may know more scopes than the one that first stored the key.
    await prisma.apiKey.update({ where: { keySha256 }, data: { scopes } });
  }
  const record = await prisma.apiKey.findUniqueOrThrow({ where: { keySha256 } });
  return { id: record.id, state: stateOfKey(record, await databaseTime(prisma)) };
}

type Keys = Pick<PrismaClient, 'apiKey' | '$queryRaw'>;

async function issue(prisma: Keys, data: Pick<ApiKey, 'name' | 'scopes' | 'expiresAt'>): Promise<IssuedKey> {
  const key = makeKey();
  const record = await prisma.apiKey.create({ data: { id: makeKeyId(), keySha256: sha256OfKey(key), ...data }, omit });
  return { key, record };
}

async function findKey(prisma: Keys, id: string): Promise<KeyRecord> {
  const record = await prisma.apiKey.findUnique({ where: { id }, omit });
  if (!record) throw new KeyRefusal('no key has this id; "inventory keys list" shows them all');
  return record;
}

/** Keys are judged by the database's clock; with the clock of another machine a revocation could lie in its future. */
async function databaseTime(prisma: Keys): Promise<Date> {
  const [row] = await prisma.$queryRaw<{ now: Date }[]>`SELECT clock_timestamp()::timestamptz(3) AS now`;
  if (!row) throw new Error('the database did not tell its time');
  return row.now;
}

function earlier(one: Date | null, other: Date): Date {
  return one && one < other ? one : other;
}
