import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCertificate, type Certificate } from '../../test/support/certificate.ts';
import { recovery, succeeded } from '../measures.ts';
import { atMost, found, Stage, type Figure, type World } from '../stage.ts';

const REFUSALS = 'words about certificates while the authority was replaced';
const EXPIRED = "not ready: no TLS with the database of DATABASE_URL: the server's certificate has expired";

/**
 * Over sslmode=verify-full, an authority is replaced as docs/operations.md says, all sessions being made anew after each step.
 * Then the server's certificate expires, and is renewed.
 */
export function renewedCertificates(world: World): Promise<Figure[]> {
  return replaced(world, { trustedFirst: true });
}

/** A control: a certificate of an authority that the services have not been told of yet must be seen to keep them out. */
export async function renewedCertificatesControl(world: World): Promise<Figure[]> {
  return found(await replaced(world, { trustedFirst: false }), REFUSALS);
}

async function replaced(world: World, { trustedFirst }: { trustedFirst: boolean }): Promise<Figure[]> {
  const { postgres } = world;
  const folder = mkdtempSync(join(tmpdir(), 'inventory-authorities-'));
  const file = join(folder, 'authorities.pem');
  const trust = (...authorities: Certificate[]): void => {
    writeFileSync(file, authorities.map(({ certificate }) => certificate).join(''));
  };
  const former = createCertificate({ name: 'the former authority' });
  const renewed = createCertificate({ name: 'the new authority' });
  trust(former);
  await postgres.enableTls();
  await postgres.useCertificate(createCertificate({ issuer: former }));
  await using stage = await Stage.open(world, {
    tls: `?sslmode=verify-full&sslrootcert=${file}`,
    settings: { LOG_LEVEL: 'warn' },
  });
  stage.defer(() => rmSync(folder, { recursive: true }));
  const { services } = stage;
  const load = stage.load();
  let [served, failed] = [0, 0];
  load.onExchange((exchange) => {
    if (succeeded(exchange)) served++;
    else if (!('status' in exchange.outcome) || exchange.outcome.status >= 500) failed++;
  });
  load.start();
  await sleep(500);

  let slowest = 0;
  const connectAnew = async (): Promise<void> => {
    await stage.database.cutSessions();
    slowest = Math.max(slowest, await recovery(load, services));
  };
  if (trustedFirst) trust(former, renewed);
  await connectAnew();
  await postgres.useCertificate(createCertificate({ issuer: renewed }));
  await connectAnew();
  trust(renewed);
  await connectAnew();
  const refused = services.flatMap(({ log }) => log.match(/certificate/g) ?? []).length;

  await postgres.useCertificate(createCertificate({ issuer: renewed, until: Date.now() - 60_000 }));
  failed = 0;
  await sleep(1_000);
  const failedOnOldSessions = failed;
  await stage.database.cutSessions();
  await sleep(500); // what was under way ends
  served = 0;
  await sleep(1_000);
  const servedOverExpired = served;
  await Promise.all(services.map((service) => service.health('ready')));
  await sleep(200); // the log is written in blocks
  const silent = services.filter((service) => !service.log.includes(EXPIRED)).length;
  await postgres.useCertificate(createCertificate({ issuer: renewed }));
  const recovered = await recovery(load, services);
  await load.stop();
  return [
    ...(await stage.verdict()).figures,
    atMost(REFUSALS, refused, 0),
    atMost('first success after sessions were cut', slowest, 1_000, 'ms'),
    atMost('failures of sessions from before the expiry', failedOnOldSessions, 0),
    atMost('served over an expired certificate', servedOverExpired, 0),
    atMost('services that do not say why', silent, 0),
    atMost('first success after the renewal', recovered, 1_000, 'ms'),
  ];
}
