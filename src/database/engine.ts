import pg from 'pg';
// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { Failure } from '../errors/error-text.ts';

/** Engines that speak PostgreSQL's protocol, by what their `version()` says. */
const OTHER_ENGINES: readonly (readonly [RegExp, string])[] = [
  [/cockroach/i, 'CockroachDB'],
  [/-YB-|yugabyte/i, 'YugabyteDB'],
  [/redshift/i, 'Amazon Redshift'],
  [/\bdsql\b/i, 'Amazon Aurora DSQL'],
  [/greenplum/i, 'Greenplum'],
  [/cloudberry/i, 'Cloudberry'],
  [/materialize/i, 'Materialize'],
  [/risingwave/i, 'RisingWave'],
  [/questdb/i, 'QuestDB'],
  [/cratedb/i, 'CrateDB'],
  [/opengauss/i, 'openGauss'],
  [/gaussdb/i, 'GaussDB'],
  [/vertica/i, 'Vertica'],
  [/duckdb|duckgres/i, 'DuckDB'],
  [/cedardb/i, 'CedarDB'],
  [/\bdolt/i, 'Doltgres'],
  [/greengage/i, 'Greengage'],
  [/spanner/i, 'Google Spanner'],
  [/using H2\b/i, 'H2'],
  [/hsqldb/i, 'HSQLDB'],
  [/immudb/i, 'immudb'],
  [/\bxtdb\b/i, 'XTDB'],
  [/greptimedb/i, 'GreptimeDB'],
  [/\bydb\b/i, 'YDB'],
];
const OLDEST = 15;
const WHICH = 'docs/deployment.md#which-postgresql';

const VERSION = 'SELECT version() AS version';

/**
 * Runs the first statement of a connection. The version comes first: settings differ between engines. Both are one round trip,
 * because a session that waits for its client could be ended as idle.
 *
 * @throws Failure for another engine or an old PostgreSQL
 */
export async function begin(client: Pick<pg.ClientBase, 'query'>, firstStatement: string): Promise<void> {
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
  const fault = result && engineFault(result.rows[0]?.version ?? '');
  if (fault !== undefined) throw new Failure(`${fault} is not supported: ${WHICH}`);
}

export function engineFault(version: string): string | undefined {
  const other = OTHER_ENGINES.find(([pattern]) => pattern.test(version))?.[1];
  if (other !== undefined) return other;
  const [, major] = /^PostgreSQL (\d+)/.exec(version) ?? [];
  if (major === undefined) return 'A database that does not call itself PostgreSQL';
  return Number(major) < OLDEST ? `PostgreSQL ${major}` : undefined;
}
