import { expect, it } from 'vitest';
import { reasonIn } from './postgres-reason.ts';

const stamp = '2026-11-25 17:53:19.548 UTC [2313] ';

it.each([
  [
    `${stamp}FATAL:  could not extend file "base/1/2691": No space left on device\n${stamp}HINT:  Check free disk space.\n${stamp}PANIC:  cannot abort transaction 1, it was already committed\nAborted\nchild process exited with exit code 134\ninitdb: removing contents of data directory "d"\n`,
    'could not extend file "base/1/2691": No space left on device. Check free disk space',
  ],
  [
    `${stamp}LOG:  starting PostgreSQL 18.4\n${stamp}LOG:  could not bind IPv4 address "127.0.0.1": Address already in use\n${stamp}HINT:  Is another postmaster already running on port 29999?\n${stamp}WARNING:  could not create listen socket for "127.0.0.1"\n${stamp}FATAL:  could not create any TCP/IP sockets\n${stamp}LOG:  database system is shut down\n`,
    'could not bind IPv4 address "127.0.0.1": Address already in use. Is another postmaster already running on port 29999?',
  ],
  [
    'postgres: could not access "postgresql.conf": No such file or directory\n',
    'postgres: could not access "postgresql.conf": No such file or directory',
  ],
  [`${stamp}LOG:  starting PostgreSQL 18.4\n`, ''],
])('finds the reason in %j', (output, reason) => {
  expect(reasonIn(output)).toBe(reason);
});
