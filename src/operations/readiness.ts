import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { bootstrapKey } from '../auth/api-key.store.js';
import { pendingMigrations } from '../database/migrations.js';
import { PrismaService } from '../database/prisma.service.js';
import { tlsFailure } from '../database/tls.js';
import { Settings } from '../settings.js';
import { Drain } from '../http/drain.js';
import { describeFailure, type FailureText } from './failure.text.js';
import { Log } from './log.js';

const PREPARE_AGAIN_AFTER_MS = 500;

/** Shorter than any probe's own patience, and long for a database that is well. */
const ANSWERS_WITHIN_MS = 1_000;
const TOO_SLOW = `the database does not answer within ${ANSWERS_WITHIN_MS / 1_000} s`;

/** Whether this process should be given requests, and what has to be done once before it is. */
@Injectable()
export class Readiness implements OnApplicationBootstrap, OnApplicationShutdown {
  #prepared = false;
  /** What the log was told last; `null` before that. */
  #told: string | null | undefined = null;
  #check: Promise<string | undefined> | undefined;
  readonly #stopped = new AbortController();

  constructor(
    private readonly settings: Settings,
    private readonly prisma: PrismaService,
    private readonly drain: Drain,
    private readonly log: Log,
  ) {}

  /** Not awaited: the service starts without a database and gets ready by itself when it comes. */
  onApplicationBootstrap(): void {
    void this.#prepare();
  }

  onApplicationShutdown(): void {
    this.#stopped.abort();
  }

  /** @returns why not, or undefined when ready */
  async obstacle(): Promise<string | undefined> {
    if (this.drain.isDraining) return 'The service is shutting down.';
    if (!this.#prepared) return 'The service has not found its database, with all migrations, yet.';
    this.#check ??= this.#databaseFailure();
    const failure = await Promise.race([this.#check, pause(ANSWERS_WITHIN_MS, TOO_SLOW, { ref: false })]);
    this.#tellChange(failure);
    return failure && 'The database cannot be used at the moment.';
  }

  /** One at a time: probes that come meanwhile share it, so that a frozen database does not fill the pool. */
  async #databaseFailure(): Promise<string | undefined> {
    try {
      await this.prisma.$queryRaw`SELECT 1`;
      return undefined;
    } catch (error) {
      return reasonOf(error);
    } finally {
      this.#check = undefined;
    }
  }

  async #prepare(): Promise<void> {
    while (!this.#prepared && !this.#stopped.signal.aborted) {
      try {
        const pending = await pendingMigrations((sql) => this.prisma.$queryRawUnsafe(sql));
        if (pending.length > 0) throw new Error(`migrations are pending: ${pending.join(', ')}`);
        await this.#storeBootstrapKey();
        this.#prepared = true;
        this.#tellChange(undefined);
      } catch (error) {
        this.#tellChange(reasonOf(error));
        await pause(PREPARE_AGAIN_AFTER_MS, undefined, { signal: this.#stopped.signal }).catch(() => undefined);
      }
    }
  }

  /** Not at every attempt or probe: what keeps the service from its database may last for hours. */
  #tellChange(obstacle: string | undefined): void {
    if (obstacle === this.#told) return;
    this.#told = obstacle;
    if (obstacle === undefined) this.log.info('ready');
    else this.log.warn(`not ready: ${obstacle}`);
  }

  async #storeBootstrapKey(): Promise<void> {
    const { BOOTSTRAP_API_KEY } = this.settings;
    if (BOOTSTRAP_API_KEY === undefined) return;
    const { id, state } = await bootstrapKey(this.prisma, BOOTSTRAP_API_KEY);
    if (state !== 'live') this.log.error({ keyId: id }, `BOOTSTRAP_API_KEY is ${state} and stays so`);
  }
}

/** In one line, and without secrets. */
function reasonOf(error: unknown): string {
  const { message, cause } = describeFailure(error);
  const text = (cause as FailureText | undefined)?.message ?? message;
  return tlsFailure(text) ?? text.trim().replaceAll(/\s+/g, ' ');
}
