import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { bootstrapKey } from '../keys/api-key-store.ts';
import { KeyCheck } from '../keys/key-check.ts';
import { byDeadline, Failure, queryOfPrisma, SQLSTATE } from '../lib/postgres/index.ts';
import { failureOf, NOT_NEWEST } from '../database-errors.ts';
import { requireMigrations } from '../migrations/migrations.ts';
import { missingRights, RIGHTS_OF_REQUESTS } from '../check/rights.ts';
import { PrismaService } from '../prisma.service.ts';
import { Settings } from '../settings.ts';
import { Log } from './log.ts';

const CHECK_AGAIN_AFTER_MS = 500;
const CHECKED_WITHIN_MS = 1_000;

@Injectable()
export class Readiness implements OnApplicationBootstrap, OnApplicationShutdown {
  /** Whether the server is about to end; undefined where Nest's own server runs. */
  drain?: { readonly isDraining: boolean };
  /** The failure that was logged last; `null` before the first check. */
  #logged: string | null | undefined = null;
  #check: Promise<string | undefined> | undefined;
  #isWatching = false;
  #isStopped = false;

  constructor(
    private readonly settings: Settings,
    private readonly prisma: PrismaService,
    private readonly keyCheck: KeyCheck,
    private readonly log: Log,
  ) {}

  /** Not awaited: the service starts without a database and gets ready by itself when it comes. */
  onApplicationBootstrap(): void {
    void this.#watch();
  }

  onApplicationShutdown(): void {
    this.#isStopped = true;
  }

  /** @returns why not, or undefined when ready */
  async obstacle(): Promise<string | undefined> {
    if (this.drain?.isDraining) return 'The service is shutting down.';
    if (!this.prisma.isPrepared) return 'The service has not found its database, with all migrations, yet.';
    if ((await this.#findFailure()) === undefined) return undefined;
    void this.#watch();
    return 'The database cannot be used at the moment.';
  }

  /** Checks until the service is ready, so that the log says when it is, even without probes. */
  async #watch(): Promise<void> {
    if (this.#isWatching) return;
    this.#isWatching = true;
    while (!this.#isStopped && (await this.#findFailure()) !== undefined) {
      await pause(CHECK_AGAIN_AFTER_MS);
    }
    this.#isWatching = false;
  }

  /** One at a time: probes that come meanwhile share it. */
  #findFailure(): Promise<string | undefined> {
    this.#check ??= this.#checkDatabase().finally(() => (this.#check = undefined));
    return this.#check;
  }

  async #checkDatabase(): Promise<string | undefined> {
    let failure: string | undefined;
    try {
      if (!this.prisma.isPrepared) await this.#prepare();
      const deadline = performance.now() + CHECKED_WITHIN_MS;
      await this.keyCheck.ping(deadline);
      await this.#lookForRights(deadline);
    } catch (error) {
      const { code, words } = failureOf(error);
      // The database may be a new one, without migrations and the bootstrap key.
      if (code === SQLSTATE.undefinedTable) this.prisma.isPrepared = false;
      failure = words;
    }
    if (failure !== this.#logged) {
      this.#logged = failure; // once for each change: an outage may last for hours
      if (failure === undefined) this.log.info('ready');
      else this.log.warn(`not ready: ${failure}`);
    }
    return failure;
  }

  /** A missing table counts; a busy pool does not. */
  async #lookForRights(deadline: number): Promise<void> {
    const rights = missingRights(queryOfPrisma(this.prisma), RIGHTS_OF_REQUESTS);
    const missing = await byDeadline(deadline, rights).catch((error: unknown) => {
      const { words } = failureOf(error);
      return words === NOT_NEWEST ? [words] : undefined;
    });
    if (missing) throw new Failure(missing.join('; '));
  }

  async #prepare(): Promise<void> {
    const { BOOTSTRAP_API_KEY } = this.settings;
    await requireMigrations(queryOfPrisma(this.prisma));
    if (BOOTSTRAP_API_KEY !== undefined) {
      const { id, state } = await bootstrapKey(this.prisma, BOOTSTRAP_API_KEY);
      if (state !== 'live') this.log.error({ keyId: id }, `BOOTSTRAP_API_KEY is ${state} and stays so`);
    }
    this.prisma.isPrepared = true;
  }
}
