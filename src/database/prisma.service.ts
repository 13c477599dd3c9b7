import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { Environment } from '../environment.js';
import { PrismaClient } from '../generated/prisma/client.js';
import { connectionOptions, statementName } from './session.js';

/** The ordinary Prisma client, for everything that is not on every request's path. */
@Injectable()
export class PrismaService extends PrismaClient implements OnApplicationShutdown {
  constructor(environment: Environment) {
    super({
      adapter: new PrismaPg(
        { ...connectionOptions(environment, 'pool'), max: environment.DATABASE_POOL_SIZE },
        { statementNameGenerator: statementName },
      ),
    });
  }

  /** After the HTTP server has closed: a request under way still needs its connection. */
  async onApplicationShutdown(): Promise<void> {
    await this.$disconnect();
  }
}
