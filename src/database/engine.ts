import type pg from 'pg';
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
];
const OLDEST = 15;
const WHICH = 'docs/deployment.md#which-postgresql';

/** @throws Failure for another engine or an old PostgreSQL. Their settings differ, so this comes before any setting. */
export async function refuseOtherEngine(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  const { rows } = await client.query<{ version: string }>('SELECT version() AS version');
  const fault = engineFault(rows[0]?.version ?? '');
  if (fault !== undefined) throw new Failure(`${fault} is not supported: ${WHICH}`);
}

export function engineFault(version: string): string | undefined {
  const other = OTHER_ENGINES.find(([pattern]) => pattern.test(version))?.[1];
  if (other !== undefined) return other;
  const [, major] = /^PostgreSQL (\d+)/.exec(version) ?? [];
  if (major === undefined) return 'A database that does not call itself PostgreSQL';
  return Number(major) < OLDEST ? `PostgreSQL ${major}` : undefined;
}
