import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Batcher } from '../database/batcher.js';
import { untilDeadline } from '../database/retry.js';
import { Session } from '../database/session.js';
import { StatementRun, arrayLiteral } from '../database/statement-run.js';
import { PrismaService } from '../database/prisma.service.js';
import { Settings } from '../settings.js';
import { isOverload, outcomeOf, readFailure } from '../errors/database-failure.js';

/**
 * What the database had committed when a request was let in.
 *
 * Two moments with the same session and the same snapshot see exactly the same rows: a session is its process and when
 * that began, and every session dies with a crash, so between the two there was none that could have handed out the
 * same transaction ids again. On a standby the snapshot does not change with every commit; there the session is null and
 * no moment equals another.
 */
export interface Snapshot {
  readonly session: string | null;
  readonly snapshot: string;
}

/** What the database says of a presented key. */
export type Verdict =
  | { readonly state: 'unknown' }
  | { readonly state: 'live' | 'expired' | 'revoked'; readonly keyId: string; readonly scopes: readonly string[] };

export interface Admission {
  readonly verdict: Verdict;
  readonly moment: Snapshot;
}

const UNKNOWN: Verdict = { state: 'unknown' };
const MOST_KEYS_PER_BATCH = 1_000;

/** How stale `last_used_at` may grow. Noting every use would be a write on every request. */
const NOTE_USE_EVERY_MINUTES = 10;

const ADMIT = `
  SELECT CASE WHEN NOT pg_is_in_recovery() THEN
           nullif(coalesce(nullif(current_setting('inventory.session', true), ''),
                           set_config('inventory.session', present_session(), false)), '')
         END,
         pg_current_snapshot()::text,
         encode(k.key_sha256, 'hex'),
         k.id,
         array_to_string(k.scopes, ' '),
         CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= now() THEN 'expired' ELSE 'live' END,
         k.last_used_at IS NULL OR k.last_used_at < now() - interval '${NOTE_USE_EVERY_MINUTES} minutes'
    FROM (VALUES (1)) AS always
    LEFT JOIN api_key k ON k.key_sha256 = ANY ($1::bytea[])`;

type AdmitRow = readonly [
  session: string | null,
  snapshot: string,
  digest: string | null,
  keyId: string | null,
  scopes: string,
  state: 'live' | 'expired' | 'revoked',
  unnoted: 't' | 'f',
];

/**
 * The one trip that every request makes: is its key good now, and has anything been committed since.
 * No key is remembered from one request to the next: a revocation holds at once, whichever process a request gets to.
 */
@Injectable()
export class KeyCheck implements OnApplicationShutdown {
  readonly #session: Session;
  readonly #trip: Batcher<string, Admission>;
  /** When this process last tried to note the use of a key, on the clock of `performance.now()`. */
  readonly #notedAt = new Map<string, number>();

  constructor(
    settings: Settings,
    private readonly prisma: PrismaService,
  ) {
    this.#session = new Session(settings, 'admission');
    this.#trip = new Batcher((digests) => this.#admit(digests), {
      name: 'key_check',
      maxCalls: MOST_KEYS_PER_BATCH,
      maxWaiting: settings.MAX_WAITING_REQUESTS,
    });
  }

  /**
   * @param digest SHA-256 of the presented key in lower-case hexadecimal
   * @param deadline on the clock of `performance.now()`
   * @throws ApiError `service_unavailable`
   */
  admit(digest: string, deadline: number): Promise<Admission> {
    return untilDeadline(
      deadline,
      (failure) => outcomeOf(failure) !== 'ours' && !isOverload(failure),
      () => this.#trip.call(digest, deadline),
    ).catch((error: unknown) => {
      throw readFailure(error);
    });
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#session.close();
  }

  async #admit(digests: readonly string[]): Promise<Admission[]> {
    const distinct = new Set(digests);
    const args = [arrayLiteral(Array.from(distinct, (digest) => `\\x${digest}`))];
    const { rows } = await this.#session.run(new StatementRun<AdmitRow>([{ sql: ADMIT, args }]));
    const [[session, snapshot] = [null, '']] = rows;
    const moment: Snapshot = { session, snapshot };
    const verdicts = new Map(rows.map((row) => [row[2], this.#read(row)]));
    const admissions = new Map<string, Admission>();
    for (const digest of distinct) admissions.set(digest, { verdict: verdicts.get(digest) ?? UNKNOWN, moment });
    return digests.map((digest) => admissions.get(digest) ?? { verdict: UNKNOWN, moment });
  }

  #read([, , , keyId, scopes, state, unnoted]: AdmitRow): Verdict {
    if (keyId === null) return UNKNOWN;
    if (state === 'live' && unnoted === 't') this.#noteUse(keyId);
    return { state, keyId, scopes: scopes.split(' ') };
  }

  /**
   * Best effort and beside the request, so it waits neither for the disk nor for a standby. By the database's clock, with
   * which it is compared.
   */
  #noteUse(keyId: string): void {
    const now = performance.now();
    const notedAt = this.#notedAt.get(keyId);
    if (notedAt !== undefined && now - notedAt < NOTE_USE_EVERY_MINUTES * 60_000) return;
    this.#notedAt.set(keyId, now);
    this.prisma.$executeRaw`
      UPDATE api_key SET last_used_at = now()
       WHERE id = ${keyId} AND set_config('synchronous_commit', 'off', true) = 'off'`.catch(() => undefined);
  }
}
