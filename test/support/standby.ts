import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { appendFileSync, chownSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serverAccount } from '../../dev/postgres-binaries.ts';
import { applyMigrations } from '../../src/database/migrations.ts';
import { Database } from './database.ts';
import { startTestServer } from './test-server.ts';

/** A primary with a migrated, empty store and a standby that streams from it: about three seconds. */
export async function startReplicated(): Promise<{ primary: Database; standby: Database; remove(): Promise<void> }> {
  const primaryFolder = join(tmpdir(), `inventory-primary-${randomUUID()}`);
  const standbyFolder = join(tmpdir(), `inventory-standby-${randomUUID()}`);
  const first = await startTestServer(primaryFolder, { throwaway: true });
  await applyMigrations(first.url);
  await first.stop();

  // A copy of a cluster that was shut down in order is a base backup.
  execFileSync('cp', ['-a', primaryFolder, standbyFolder]);
  const primary = await startTestServer(primaryFolder, { throwaway: true });
  const data = join(standbyFolder, 'data');
  const signal = join(data, 'standby.signal');
  writeFileSync(signal, '');
  if (serverAccount) chownSync(signal, serverAccount.uid, serverAccount.gid);
  appendFileSync(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${primary.url}'\n`);
  const standby = await startTestServer(standbyFolder, { throwaway: true });

  return {
    primary: new Database(primary.url),
    standby: new Database(standby.url),
    async remove() {
      await Promise.all([standby.stop(), primary.stop()]);
      for (const folder of [primaryFolder, standbyFolder]) rmSync(folder, { recursive: true, force: true });
    },
  };
}
