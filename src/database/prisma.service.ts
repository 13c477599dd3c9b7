import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { Environment } from '../environment.js';
import { PrismaClient } from '../generated/prisma/client.js';
import { FIXED_PLANS, connectionOptions } from './session.js';
import { statementName } from './statement-run.js';

/** The ordinary Prisma client, for everything that is not on every request's path. */
@Injectable()
export class PrismaService extends PrismaClient implements OnApplicationShutdown {
  readonly pool: pg.Pool;

  constructor(environment: Environment) {
    const pool = new pg.Pool({
      ...connectionOptions(environment, 'pool'),
      ...FIXED_PLANS,
      max: environment.DATABASE_POOL_SIZE,
    });
    super({
      adapter: new PrismaPg(pool, { disposeExternalPool: true, statementNameGenerator: statementName }),
    });
    this.pool = pool;
  }

  /** After the HTTP server has closed: a request under way still needs its connection. */
  async onApplicationShutdown(): Promise<void> {
    await this.$disconnect();
  }
}
