import { describe, expect, it } from 'vitest';
import { engineFault } from './engine.js';

describe('engineFault', () => {
  it.each([
    ['CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu, built 2025/06/02 16:23:39, go1.23.7)', 'CockroachDB'],
    ['PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 15.0.3', 'YugabyteDB'],
    ['PostgreSQL 15.12-YB-2025.1.0.0-b168 on x86_64-pc-linux-gnu', 'YugabyteDB'],
    ['PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.12103', 'Amazon Redshift'],
    ['PostgreSQL 9.4.26 (Greenplum Database 6.21.0 build commit:fff63ad) on x86_64', 'Greenplum'],
    ['PostgreSQL 14.4 (Apache Cloudberry 2.0.0 build 1) on x86_64-pc-linux-gnu', 'Cloudberry'],
    ['PostgreSQL 9.5.0 on x86_64-unknown-linux-gnu (Materialize v26.0.0)', 'Materialize'],
    ['PostgreSQL 13.14.0-RisingWave-2.1.0 (aaf4d6ba5ac4a3a4cb0ee7c0f9d3cbaf)', 'RisingWave'],
    ['PostgreSQL 12.3, compiled by Visual C++ build 1914, 64-bit, QuestDB', 'QuestDB'],
    ['CrateDB 5.10.3 (built 1d4e3cd/2025-03-14T11:42:37Z, Linux 5.10 amd64)', 'CrateDB'],
    ['(openGauss 5.0.0 build a07d57c3) compiled at 2023-03-29 03:37:13 commit 0 last mr', 'openGauss'],
    ['PostgreSQL 16 (XTDB 2.2.0)', 'XTDB'],
    ['PostgreSQL 16.3-greptimedb-1.0.0', 'GreptimeDB'],
    ['16.3-GreptimeDB-1.0.1', 'GreptimeDB'],
    ['PostgreSQL 16.9 (ydb stable-25-1)', 'YDB'],
    ['PostgreSQL 14.19 on x86_64-pc-linux-gnu', 'PostgreSQL 14'],
    ['PostgreSQL 9.6.24', 'PostgreSQL 9'],
    ['KingbaseES V008R006C008B0014', 'A database that does not call itself PostgreSQL'],
    ['', 'A database that does not call itself PostgreSQL'],
  ])('finds in %j the engine %s', (version, engine) => expect(engineFault(version)).toBe(engine));

  it.each([
    'PostgreSQL 15.14 (Debian 15.14-1.pgdg13+1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 14.2.0-19) 14.2.0, 64-bit',
    'PostgreSQL 16.9 (Ubuntu 16.9-0ubuntu0.24.04.1) on aarch64-unknown-linux-gnu',
    'PostgreSQL 17.5 (6bc9ef8) on aarch64-unknown-linux-gnu, compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit',
    'PostgreSQL 17.5 - Percona Server for PostgreSQL 17.5.1 on x86_64-pc-linux-gnu',
    'PostgreSQL 17.2, compiled by Visual C++ build 1942, 64-bit',
    'PostgreSQL 19.0 on x86_64-pc-linux-gnu',
    'PostgreSQL 19beta2 on x86_64-pc-linux-gnu',
  ])('takes %j', (version) => expect(engineFault(version)).toBeUndefined());
});
