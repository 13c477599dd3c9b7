import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Batcher } from '../database/batcher.js';
import { mayReadAgain, readFailure } from '../database/database-failure.js';
import { PrismaService } from '../database/prisma.service.js';
import { untilDeadline } from '../database/deadline.js';
import { SNAPSHOT, type Snapshot } from '../database/snapshot.js';
import { StatementConnection, arrayLiteral } from '../database/statement-connection.js';
import { Settings } from '../settings.js';
import type { AuthFailure } from '../http/api-request.js';
import { KEY_STATE } from './api-key.store.js';

export interface CheckedKey {
  /** Why it lets nobody in; undefined when it is live. */
  readonly failure: Extract<AuthFailure, 'unknown_key' | 'expired_key' | 'revoked_key'> | undefined;
  /** Its public id; undefined when the database does not know the key. */
  readonly keyId: string | undefined;
  readonly scopes: readonly string[];
  /** What had been committed when it was checked. */
  readonly snapshot: Snapshot;
}

const READER_WAITS_MS = 250;
const READER_SERVES_MS = 3_600_000;

/** How stale `last_used_at` may grow. Noting every use would be a write on every request. */
const NOTE_USE_EVERY_MS = 600_000;

const CHECK_KEYS = `
  SELECT ${SNAPSHOT},
         encode(key_sha256, 'hex'), id, array_to_string(scopes, ' '), nullif(${KEY_STATE} || '_key', 'live_key')
    FROM (VALUES (1)) AS always LEFT JOIN api_key ON key_sha256 = ANY ($1::bytea[])`;

type KeyRow = readonly [
  life: string | null,
  transactions: string,
  digest: string | null,
  keyId: string,
  scopes: string,
  failure: 'expired_key' | 'revoked_key' | null,
];

/** Every request's one round trip. Only {@link KeyCheck.checkReader} remembers keys: a revocation holds at once everywhere. */
@Injectable()
export class KeyCheck implements OnApplicationShutdown {
  /** Whether the database has all migrations and the bootstrap key. */
  isPrepared = false;
  readonly #connection: StatementConnection;
  readonly #batcher: Batcher<string, CheckedKey>;
  readonly #readers = new Map<string, { readonly key: CheckedKey; readonly until: number }>();
  readonly #notedAt = new Map<string, number>();

  constructor(
    settings: Settings,
    private readonly prisma: PrismaService,
  ) {
    this.#connection = new StatementConnection(settings, 'key check');
    const limits = { maxCalls: 1_000, maxWaiting: settings.MAX_WAITING_REQUESTS };
    this.#batcher = new Batcher((digests) => this.#checkAll(digests), { name: 'key_check', ...limits });
  }

  /** The digest is the SHA-256 of a key in lower-case hexadecimal. @throws NotApplied when the database does not say */
  check(digest: string, deadline: number): Promise<CheckedKey> {
    return untilDeadline(deadline, mayReadAgain, () => this.#batcher.call(digest, deadline)).catch((error: unknown) => {
      throw readFailure(error);
    });
  }

  /** For a reader of metrics, who must see an outage: without an answer, a key that was good within the last hour serves. */
  checkReader(digest: string, deadline: number): Promise<CheckedKey> {
    const known = this.#readers.get(digest);
    const checked = this.check(digest, deadline).then((key) => {
      if (key.failure === undefined) this.#readers.set(digest, { key, until: performance.now() + READER_SERVES_MS });
      else this.#readers.delete(digest);
      return key;
    });
    if (known === undefined || known.until < performance.now()) return checked;
    return Promise.race([checked, pause(READER_WAITS_MS).then(() => known.key)]).catch(() => known.key);
  }

  /** Asks the database, however many requests wait. */
  async isAnswered(deadline: number): Promise<void> {
    await this.#batcher.call('00'.repeat(32), deadline, true); // no key has this SHA-256
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#connection.close();
  }

  async #checkAll(digests: readonly string[]): Promise<CheckedKey[]> {
    const values = [arrayLiteral(Array.from(new Set(digests), (digest) => `\\x${digest}`))];
    const rows = await this.#connection.run<KeyRow>({ sql: CHECK_KEYS, values });
    const [[life, transactions] = [null, '']] = rows;
    const snapshot = { life, transactions };
    const unknown: CheckedKey = { failure: 'unknown_key', keyId: undefined, scopes: [], snapshot };
    const known = new Map<string, CheckedKey>();
    for (const [, , digest, keyId, scopes, failure] of rows) {
      if (digest === null) continue;
      known.set(digest, { failure: failure ?? undefined, keyId, scopes: scopes.split(' '), snapshot });
      if (failure === null) this.#noteUse(keyId);
    }
    return digests.map((digest) => known.get(digest) ?? unknown);
  }

  /** Best effort and beside the request, so it waits neither for the disk nor for a standby. */
  #noteUse(keyId: string): void {
    const now = performance.now();
    if (now < (this.#notedAt.get(keyId) ?? -Infinity) + NOTE_USE_EVERY_MS) return;
    this.#notedAt.set(keyId, now);
    this.prisma.$executeRaw`
      UPDATE api_key SET last_used_at = now()
       WHERE id = ${keyId} AND set_config('synchronous_commit', 'off', true) = 'off'`.catch(() => undefined);
  }
}
