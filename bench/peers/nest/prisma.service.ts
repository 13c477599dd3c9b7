import { Injectable } from '@nestjs/common';
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from '../../../src/generated/prisma/client.js';

const names = new Map<string, string>();

/** Equal statements get equal names, so that PostgreSQL plans each but once. */
function statementName({ sql }: { sql: string }): string {
  const name = names.get(sql) ?? `s${names.size}`;
  names.set(sql, name);
  return name;
}

@Injectable()
export class PrismaService extends PrismaClient {
  constructor() {
    super({
      adapter: new PrismaPg(
        { connectionString: process.env['DATABASE_URL'], max: 10, idleTimeoutMillis: 0, keepAlive: true },
        { statementNameGenerator: statementName },
      ),
    });
  }
}
