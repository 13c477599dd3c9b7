import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { arrayLiteral, Batcher, retryUntilDeadline, StatementConnection } from '../lib/postgres/index.ts';
import { errors, mayReadAgain, readFailure, sessionOf } from '../database-errors.ts';
import { PrismaService } from '../prisma.service.ts';
import { SNAPSHOT, type Snapshot } from './snapshot.ts';
import { Settings } from '../settings.ts';
import type { CheckedKey } from './access.ts';
import { KEY_STATE } from './api-key-store.ts';

const METRICS_WAIT_MS = 250;
const METRICS_KEY_SERVES_MS = 3_600_000;

/** How stale `last_used_at` may grow. Noting every use would be a write on every request. */
const NOTE_USE_EVERY_MS = 600_000;

export const MOST_KEYS = 1_000;

/** Read it in key-check-and-snapshot.sql. It has a row even if no key is known: for the snapshot. */
const checkKeys = (snapshot: string) => `
  SELECT ${snapshot},
         encode(key_sha256, 'hex') AS sha256, id, array_to_string(scopes, ' ') AS scopes,
         nullif(${KEY_STATE} || '_key', 'live_key') AS failure
    FROM (VALUES (1)) AS always LEFT JOIN api_key ON key_sha256 = ANY ($1::bytea[])`;
export const CHECK_KEYS = checkKeys('NULL AS life, NULL AS transactions');
export const CHECK_KEYS_AND_SNAPSHOT = checkKeys(SNAPSHOT);

type KeyRow = readonly [
  life: string | null,
  transactions: string | null,
  digest: string | null,
  keyId: string,
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
