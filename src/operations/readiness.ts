import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { bootstrapKey } from '../auth/api-key.store.js';
import { KeyCheck } from '../auth/key-check.js';
import { sqlstateOf } from '../database/database-failure.js';
import { DeadlinePassed } from '../database/deadline.js';
import { pendingMigrations } from '../database/migrations.js';
import { PrismaService } from '../database/prisma.service.js';
import { tlsFailure } from '../database/tls.js';
import { Drain } from '../http/drain.js';
import { Settings } from '../settings.js';
import { describeError } from './error-text.js';
import { Log } from './log.js';

/** No such table, no such function: what takes the place of those that are gone may lack migrations and the bootstrap key. */
const MISSING = ['42P01', '42883'];
const PREPARE_AGAIN_AFTER_MS = 500;

/** Shorter than any probe's own patience, and long for a database that is well. */
const CHECKED_WITHIN_MS = 1_000;

/** Whether this process should be given requests, and what has to be done once before it is. */
@Injectable()
export class Readiness implements OnApplicationBootstrap, OnApplicationShutdown {
  /** What the log has last; `null` before that. */
  #logged: string | null | undefined = null;
  #check: Promise<string | undefined> | undefined;
  #isStopped = false;

  constructor(
    private readonly settings: Settings,
    private readonly prisma: PrismaService,
    private readonly keyCheck: KeyCheck,
    private readonly drain: Drain,
    private readonly log: Log,
  ) {}

  /** Not awaited: the service starts without a database and gets ready by itself when it comes. */
  onApplicationBootstrap(): void {
    void this.#prepare();
  }

  onApplicationShutdown(): void {
    this.#isStopped = true;
  }

  /** @returns why not, or undefined when ready */
  async obstacle(): Promise<string | undefined> {
    if (this.drain.isDraining) return 'The service is shutting down.';
    if (!this.keyCheck.isPrepared) return 'The service has not found its database, with all migrations, yet.';
    // One at a time: probes that come meanwhile share it.
    this.#check ??= this.#findFailure().finally(() => (this.#check = undefined));
    const failure = await this.#check;
    this.#logChange(failure);
    return failure && 'The database cannot be used at the moment.';
  }

  async #findFailure(): Promise<string | undefined> {
    try {
      await this.keyCheck.isAnswered(performance.now() + CHECKED_WITHIN_MS);
      return undefined;
    } catch (error) {
      if (MISSING.includes(sqlstateOf(error) ?? '')) void this.#prepare();
      return reasonOf(error);
    }
  }

  async #prepare(): Promise<void> {
    const { BOOTSTRAP_API_KEY } = this.settings;
    this.keyCheck.isPrepared = false;
    while (!this.keyCheck.isPrepared && !this.#isStopped) {
      try {
        const pending = await pendingMigrations((sql) => this.prisma.$queryRawUnsafe(sql));
        if (pending.length > 0) throw new Error(`migrations are pending: ${pending.join(', ')}`);
        if (BOOTSTRAP_API_KEY !== undefined) {
          const { id, state } = await bootstrapKey(this.prisma, BOOTSTRAP_API_KEY);
          if (state !== 'live') this.log.error({ keyId: id }, `BOOTSTRAP_API_KEY is ${state} and stays so`);
        }
        this.keyCheck.isPrepared = true;
        this.#logChange(undefined);
      } catch (error) {
        this.#logChange(reasonOf(error));
        await pause(PREPARE_AGAIN_AFTER_MS, undefined, { ref: false });
      }
    }
  }

  /** Not at every attempt or probe: what keeps the service from its database may last for hours. */
  #logChange(obstacle: string | undefined): void {
    if (obstacle === this.#logged) return;
    this.#logged = obstacle;
    if (obstacle === undefined) this.log.info('ready');
    else this.log.warn(`not ready: ${obstacle}`);
  }
}

/** In one line, and without secrets. */
function reasonOf(error: unknown): string {
  if (error instanceof DeadlinePassed) return `the database does not answer within ${CHECKED_WITHIN_MS / 1_000} s`;
  const { message, cause } = describeError(error);
  const text = cause?.message ?? message;
  return tlsFailure(text) ?? text.trim().replaceAll(/\s+/g, ' ');
}
