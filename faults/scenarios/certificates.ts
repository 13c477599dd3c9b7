import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCertificate, type Certificate } from '../../test/support/certificate.ts';
import { succeeded } from '../measures.ts';
import { atMost, Stage, type Scenarios } from '../stage.ts';

const EXPIRED = 'not ready: no TLS with the database of DATABASE_URL: certificate has expired';

/**
 * Over sslmode=verify-full, an authority is replaced as docs/operations.md says, all sessions being made anew after each step.
 * Then the server's certificate expires, and is renewed.
 */
export const CERTIFICATES: Scenarios = {
  'renewed-certificates': async (world) => {
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
    const { services, database } = stage;
    const load = stage.startLoad({ conditionalShare: 0 }); // a refused precondition would count as not served
    await sleep(500);

    const connectAnew = async (): Promise<void> => {
      await database.cutSessions();
      await stage.recovery();
    };
    trust(former, renewed);
    await connectAnew();
    await postgres.useCertificate(createCertificate({ issuer: renewed }));
    await connectAnew();
    trust(renewed);
    await connectAnew();
    const refused = services.flatMap(({ log }) => log.match(/certificate/g) ?? []).length;

    await postgres.useCertificate(createCertificate({ issuer: renewed, until: Date.now() - 60_000 }));
    const unservedBefore = load.unserved;
    await sleep(1_000);
    const failedOnOldSessions = load.unserved - unservedBefore;
    await database.cutSessions();
    await sleep(500);
    const begun = performance.now(); // what was under way may end later, where the disk is slow
    let servedOverExpired = 0;
    load.onExchange((exchange) => {
      if (exchange.start > begun && succeeded(exchange)) servedOverExpired++;
    });
    await sleep(1_000);
    await Promise.all(services.map((service) => service.health('ready')));
    await sleep(200); // the log is written in blocks
    const silent = services.filter((service) => !service.log.includes(EXPIRED)).length;
    const expired = atMost('served over an expired certificate', servedOverExpired, 0);

    await postgres.useCertificate(createCertificate({ issuer: renewed }));
    await stage.recovery();
    const figures = await stage.verdict();
    return [
      ...figures,
      atMost('words about certificates while the authority was replaced', refused, 0),
      atMost('failures of sessions from before the expiry', failedOnOldSessions, 0),
      expired,
      atMost('services that do not say why', silent, 0),
    ];
  },
};
