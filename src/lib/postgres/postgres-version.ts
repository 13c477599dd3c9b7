import pg from 'pg';
import { Failure } from './outcomes.ts';

const OLDEST = 15;
/** YugabyteDB, Aurora DSQL, CedarDB, Doltgres, XTDB, GreptimeDB and YDB call themselves PostgreSQL 15 or newer. */
const CALLED_POSTGRES = /-YB-|dsql|cedardb|dolt|xtdb|greptimedb|\bydb\b/i;

const VERSION = 'SELECT version() AS version';

/**
 * Runs the first statement of a connection. The version comes first: settings differ between engines. Both are one
 * round trip, because a session that waits for its client could be ended as idle.
 *
 * @throws Failure for another engine or an old PostgreSQL
 */
export async function startSession(client: Pick<pg.ClientBase, 'query'>, firstStatement: string): Promise<void> {
  try {
    const results = (await client.query(`${VERSION};${firstStatement}`)) as unknown as pg.QueryResult<Version>[];
    refuseOtherEngine(results[0]);
  } catch (error) {
    // Behind a pooler, the session serves another client next.
    if (error instanceof Failure) await client.query('RESET ALL').catch(() => undefined);
    if (error instanceof pg.DatabaseError)
      refuseOtherEngine(await client.query<Version>(VERSION).catch(() => undefined));
    throw error;
  }
}

interface Version {
  readonly version: string;
}

function refuseOtherEngine(result: pg.QueryResult<Version> | undefined): void {
  const version = result && (result.rows[0]?.version ?? '');
  if (version !== undefined && !isSupported(version))
    throw new Failure(
      `the database must be PostgreSQL ${OLDEST} or newer, not another engine; it calls itself ${version}`,
    );
}

export function isSupported(version: string): boolean {
  const [, major] = /^PostgreSQL (\d+)/.exec(version) ?? [];
  return Number(major) >= OLDEST && !CALLED_POSTGRES.test(version);
}
