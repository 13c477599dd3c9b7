import { chownSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startPostgres, type EmbeddedPostgres, type PostgresOptions } from '../../dev/embedded-postgres.ts';
import { serverAccount } from '../../dev/postgres-binaries.ts';
import { createCertificate, type Certificate } from './certificate.ts';

const wantsTls = process.env['TEST_DATABASE_TLS'] === 'verify-full';

/**
 * Starts a server for tests, as `startPostgres` does. With TEST_DATABASE_TLS=verify-full it takes nothing but TLS, by a
 * certificate for `localhost` of an authority of its own, and its address asks for that.
 */
export async function startTestServer(folder: string, options: PostgresOptions): Promise<EmbeddedPostgres> {
  let server = await startPostgres(folder, options);
  if (!wantsTls) return server;
  const authorityFile = join(folder, 'authority.pem');
  if (!existsSync(authorityFile)) {
    await server.stop();
    const authority = createCertificate({ name: 'the authority of a test' });
    installCertificate(folder, createCertificate({ issuer: authority }));
    writeFileSync(join(folder, 'data', 'postgresql.auto.conf'), 'ssl = on\n');
    const rules = ['all', 'replication'].map((database) => `hostssl ${database} all 127.0.0.1/32 scram-sha-256\n`);
    writeFileSync(join(folder, 'data', 'pg_hba.conf'), rules.join(''));
    writeFileSync(authorityFile, authority.certificate);
    server = await startPostgres(folder, options);
  }
  const url = new URL(server.url);
  url.hostname = 'localhost';
  url.search = `?sslmode=verify-full&sslrootcert=${authorityFile}`;
  return { ...server, url: url.href };
}

/** Puts it where the server of the folder looks for it at its start and when it is told to reload. */
export function installCertificate(folder: string, { certificate, key }: Certificate): void {
  for (const [name, text] of [
    ['server.crt', certificate],
    ['server.key', key],
  ] as const) {
    const file = join(folder, 'data', name);
    writeFileSync(file, text, { mode: 0o600 });
    if (serverAccount) chownSync(file, serverAccount.uid, serverAccount.gid);
  }
}
