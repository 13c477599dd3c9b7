import { expect, it } from 'vitest';
import { isSupported } from './postgres-version.ts';

it.each([
  'PostgreSQL 15.14 (Debian 15.14-1.pgdg13+1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 14.2.0-19) 14.2.0, 64-bit',
  'PostgreSQL 17.5 (6bc9ef8) on aarch64-unknown-linux-gnu, compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit',
  'PostgreSQL 17.5 - Percona Server for PostgreSQL 17.5.1 on x86_64-pc-linux-gnu',
  'PostgreSQL 19beta2 on x86_64-pc-linux-gnu',
])('takes %j', (version) => expect(isSupported(version)).toBe(true));

it.each([
  'PostgreSQL 14.19 on x86_64-pc-linux-gnu',
  'PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2, Redshift 1.0.12103',
  'CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu, built 2025/06/02 16:23:39, go1.23.7)',
  '(openGauss 5.0.0 build a07d57c3) compiled at 2023-03-29 03:37:13 commit 0 last mr',
  'PostgreSQL 15.12-YB-2025.1.0.0-b168 on x86_64-pc-linux-gnu',
  'PostgreSQL 16 (XTDB 2.2.0)',
  'PostgreSQL 16.3-greptimedb-1.0.0',
  'PostgreSQL 16.9 (ydb stable-25-1)',
  '',
])('refuses %j', (version) => expect(isSupported(version)).toBe(false));
