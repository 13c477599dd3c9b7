import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { arrayLiteral, Batcher, retryUntilDeadline, StatementConnection } from '../lib/postgres/index.ts';
import { errors, mayReadAgain, readFailure, sessionOf } from '../database-errors.ts';
import { PrismaService } from '../prisma.service.ts';
import { Settings } from '../settings.ts';
import type { CheckedKey, Snapshot } from './checked-key.ts';

const METRICS_WAIT_MS = 250;
const METRICS_KEY_SERVES_MS = 3_600_000;

/** How stale `last_used_at` may grow. Noting every use would be a write on every request. */
const NOTE_USE_EVERY_MS = 600_000;

const MOST_KEYS = 1_000;

/**
 * Checks the keys of all requests that wait, if all of these are updates. $1: the SHA-256 of each key, once.
 *
 * A key has a row if the table has it; if the table has none of them, there is one row without sha256. A revoked or
 * expired key is refused from its next request on, because the statement is sent after the request has come.
 *
 * PostgreSQL takes 50 µs of CPU time for one key, 63 for 8, 165 for 64. So requests share it.
 */
const CHECK_KEYS = `
  SELECT NULL AS life, NULL AS transactions,
         encode(key_sha256, 'hex') AS sha256, id, array_to_string(scopes, ' ') AS scopes,
         CASE WHEN revoked_at IS NOT NULL THEN 'revoked_key'
              WHEN expires_at <= clock_timestamp() THEN 'expired_key' END AS failure
    FROM (VALUES (1)) AS always LEFT JOIN api_key ON key_sha256 = ANY ($1::bytea[])`;

/**
 * The same for lists, with a {@link Snapshot} in each row: it sees each commit that was confirmed before the request
 * came. The session keeps the life in a setting, because no session outlives a crash.
 *
 * PostgreSQL takes 55 µs of CPU time for one key, 74 for 8, 200 for 64.
 */
export const CHECK_KEYS_AND_SNAPSHOT = `
  SELECT CASE WHEN NOT pg_is_in_recovery() THEN
           nullif(coalesce(nullif(current_setting('inventory.life', true), ''),
                           set_config('inventory.life', present_server_life(), false)), '')
         END AS life,
         pg_current_snapshot() AS transactions,
         encode(key_sha256, 'hex') AS sha256, id, array_to_string(scopes, ' ') AS scopes,
         CASE WHEN revoked_at IS NOT NULL THEN 'revoked_key'
              WHEN expires_at <= clock_timestamp() THEN 'expired_key' END AS failure
    FROM (VALUES (1)) AS always LEFT JOIN api_key ON key_sha256 = ANY ($1::bytea[])`;

type KeyRow = readonly [
  life: string | null,
  transactions: string | null,
  sha256: string | null,
  id: string,
  scopes: string,
  failure: 'expired_key' | 'revoked_key' | null,
];

/** For updates alone: no snapshot was read. */
const NO_SNAPSHOT: Snapshot = { life: null, transactions: '' };

export const NO_KEY = { keyId: undefined, scopes: [], snapshot: NO_SNAPSHOT };

interface Call {
  /** The SHA-256 of a key in lower-case hexadecimal. */
  readonly digest: string;
  readonly isUpdate: boolean;
}

/**
 * Every request costs this round trip, so that a revocation takes effect at once; at `/metrics`, once the database
 * answers: only {@link KeyCheck.checkForMetrics} remembers keys.
 */
@Injectable()
export class KeyCheck implements OnApplicationShutdown {
  readonly #connection: StatementConnection;
  readonly #batcher: Batcher<Call, CheckedKey>;
  readonly #metricsKeys = new Map<string, { readonly key: CheckedKey; readonly until: number }>();
  readonly #notedAt = new Map<string, number>();

  constructor(
    settings: Settings,
    private readonly prisma: PrismaService,
  ) {
    this.#connection = new StatementConnection(sessionOf(settings, 'key check'), errors);
    const limits = { maxCalls: MOST_KEYS, maxWaiting: settings.MAX_WAITING_REQUESTS };
    this.#batcher = new Batcher((calls) => this.#checkAll(calls), { name: 'key_check', ...limits });
  }

  /**
   * @param digest the SHA-256 of a key in lower-case hexadecimal
   * @param isUpdate an update needs no snapshot; it gets one unless all of its batch are updates
   * @throws NotApplied when the database does not answer
   */
  check(digest: string, deadline: number, isUpdate = false): Promise<CheckedKey> {
    const call = { digest, isUpdate };
    return retryUntilDeadline(deadline, mayReadAgain, () => this.#batcher.submit(call, deadline)).catch(
      (error: unknown) => {
        throw readFailure(error);
      },
    );
  }

  /**
   * Settles with the oldest unfinished key check of an update; undefined if there is none. A batch of updates waits for
   * it: sent at once, it would just miss the updates whose keys are being checked.
   */
  nextUpdateArrives(): Promise<CheckedKey> | undefined {
    return this.#batcher.first(({ isUpdate }) => isUpdate);
  }

  /**
   * For metrics, which must show an outage: without an answer within 250 ms, a key serves that this method found good
   * within the last hour, even if it was revoked since.
   */
  checkForMetrics(digest: string, deadline: number): Promise<CheckedKey> {
    const known = this.#metricsKeys.get(digest);
    const checked = this.check(digest, deadline).then((key) => {
      if (key.failure === undefined)
        this.#metricsKeys.set(digest, { key, until: performance.now() + METRICS_KEY_SERVES_MS });
      else this.#metricsKeys.delete(digest);
      return key;
    });
    if (known === undefined || known.until < performance.now()) return checked;
    return Promise.race([checked, pause(METRICS_WAIT_MS).then(() => known.key)]).catch(() => known.key);
  }

  /** Resolves if the database answers, however many requests wait. */
  async ping(deadline: number): Promise<void> {
    const call = { digest: '00'.repeat(32), isUpdate: false }; // no key has this SHA-256
    await this.#batcher.submit(call, deadline, { evenIfFull: true });
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#connection.close();
  }

  async #checkAll(calls: readonly Call[]): Promise<CheckedKey[]> {
    const values = [arrayLiteral(Array.from(new Set(calls.map(({ digest }) => digest)), (digest) => `\\x${digest}`))];
    const sql = calls.every(({ isUpdate }) => isUpdate) ? CHECK_KEYS : CHECK_KEYS_AND_SNAPSHOT;
    const rows = await this.#connection.run<KeyRow>({ sql, values });
    const [[life, transactions] = [null, null]] = rows;
    const snapshot = transactions === null ? NO_SNAPSHOT : { life, transactions };
    const unknown: CheckedKey = { ...NO_KEY, failure: 'unknown_key', snapshot };
    const known = new Map<string, CheckedKey>();
    for (const [, , digest, keyId, scopes, failure] of rows) {
      if (digest === null) continue;
      known.set(digest, { failure: failure ?? undefined, keyId, scopes: scopes.split(' '), snapshot });
      if (failure === null) this.#noteUse(keyId);
    }
    return calls.map(({ digest }) => known.get(digest) ?? unknown);
  }

  /** Best effort: the request does not wait for it, and it waits neither for the disk nor for a standby. */
  #noteUse(keyId: string): void {
    const now = performance.now();
    if (now < (this.#notedAt.get(keyId) ?? -Infinity) + NOTE_USE_EVERY_MS) return;
    this.#notedAt.set(keyId, now);
    this.prisma.$executeRaw`
      UPDATE api_key SET last_used_at = now()
       WHERE id = ${keyId} AND set_config('synchronous_commit', 'off', true) = 'off'`.catch(() => undefined);
  }
}
