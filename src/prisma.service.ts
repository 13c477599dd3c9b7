import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { Settings } from './settings.ts';
import { type Prisma, PrismaClient } from './generated/prisma/client.ts';
import { ConnectionPool, schemaForPrisma } from './lib/postgres/index.ts';
import { sessionOf, statementName } from './database-errors.ts';

type Options = Prisma.PrismaClientOptions & { log: Prisma.LogDefinition[] };

@Injectable()
export class PrismaService extends PrismaClient<Options> implements OnApplicationShutdown {
  readonly pool: ConnectionPool;
  /** Whether the database has all migrations and the bootstrap key, as the readiness check found. */
  isPrepared = false;

  constructor(settings: Settings) {
    const pool = new ConnectionPool(sessionOf(settings, 'pool'), settings.DATABASE_POOL_SIZE);
    const options = { disposeExternalPool: true, statementNameGenerator: statementName };
    const adapter = new PrismaPg(pool, { ...options, schema: schemaForPrisma(settings.DATABASE_URL) });
    super({ adapter, log: settings.OTEL_SDK_DISABLED ? [] : [{ level: 'query', emit: 'event' }] });
    this.pool = pool;
  }

  /** After the HTTP server has closed: a request under way still needs its connection. */
  async onApplicationShutdown(): Promise<void> {
    await this.$disconnect();
  }
}
