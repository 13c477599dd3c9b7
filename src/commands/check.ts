import type { Command } from 'commander';
import { type Client, DatabaseError, type QueryResult } from 'pg';
import { Failure, type Query, schemaForPrisma } from '../lib/postgres/index.ts';
import { type Finding, fault, LOOKS, notLookedAt, ok, warn } from '../check/looks.ts';
import { failureOf, NOT_NEWEST } from '../database-errors.ts';
import { withoutSecrets } from '../safe-text.ts';
import { readSettings, type Settings } from '../settings.ts';
import { version } from '../version.ts';
import { withConnection } from './connection.ts';
import { reader } from './option-values.ts';
import { withoutControls } from './output.ts';

const LOOK_MS = 1_000;
const LOCK_MS = 900; // less: the words of a lock say more than those of a statement that was cut off
const SERVICE_MS = 3_000;
const LONGEST_RESPONSE = 1_000_000; // characters
const limits = {
  connectionTimeoutMillis: 3_000,
  lock_timeout: LOCK_MS,
  statement_timeout: LOOK_MS,
  query_timeout: 2 * LOOK_MS, // for when PostgreSQL does not answer
};

const isUrl = (text: string) => /^https?:\/\/[^?#]+$/.test(text) && URL.canParse(text);
const readUrl = reader(
  'be the URL of a service, such as http://127.0.0.1:3000',
  isUrl,
  (text) => new URL(text.replace(/\/?$/, '/')),
);

export function addCheck(program: Command): void {
  program
    .command('check')
    .summary('Says what is wrong with the database or a service, and what to do.')
    .description(
      'Looks at the database of DATABASE_URL, and writes nothing. Prints a line for each look: ok, warn or fault, and what to do. Exits with 1 if there is a fault. Run it as the role and on the machine of the service.',
    )
    .option(
      '--url <url>',
      'look at this service, too; with a key of scope metrics:read in INVENTORY_KEY, also at its version and log',
      readUrl,
    )
    .addHelpText('after', '\nExample:\n  inventory check --url http://127.0.0.1:3000')
    .action(check);
}

async function check({ url }: { url?: URL }): Promise<void> {
  let faults = 0;
  const print = (name: string, { state, says }: Finding) => {
    console.log(`${state.padEnd(5)} ${name.padEnd(10)} ${withoutControls(withoutSecrets(says))}`);
    if (state === 'fault') faults++;
  };
  let key: string | undefined;
  try {
    const settings = readSettings();
    key = settings.INVENTORY_KEY;
    await withConnection('check', (client) => look(client, settings, print), limits);
  } catch (error) {
    print('address', fault(failureOf(error).words.replaceAll('\n', '; ')));
  }
  if (url) print('service', await serviceAt(url, key));
  if (faults > 0) throw new Failure(`${faults} of the lines above ${faults === 1 ? 'is a fault' : 'are faults'}`);
}

async function look(client: Client, { DATABASE_URL }: Settings, print: (name: string, found: Finding) => void) {
  const { user, host, port, database } = client;
  const mode = new Map(new URL(DATABASE_URL).searchParams).get('sslmode') ?? 'disable'; // of several, the last counts
  print('address', ok(`${user}@${host}:${port}/${database}, sslmode ${mode}`));
  // With each statement: a pooler may give it another session. One simple query is one transaction.
  const bounds = [
    ...['transaction_read_only = on', 'row_security = off', `search_path = "${schemaForPrisma(DATABASE_URL)}"`],
    ...[`statement_timeout = ${LOOK_MS}`, `lock_timeout = ${LOCK_MS}`],
  ].map((setting) => `SET LOCAL ${setting};`);
  const query: Query = async (sql) => {
    const results = (await client.query(bounds.join('') + sql)) as unknown as QueryResult[];
    return results.at(-1)?.rows;
  };
  const notOk = new Set<string>();
  for (const [name, lookAt, needs] of LOOKS) {
    const found =
      needs !== undefined && notOk.has(needs)
        ? notLookedAt(`see ${needs}`)
        : await lookAt(query).catch((error: unknown) => {
            const { outcome, words } = failureOf(error);
            if (!(error instanceof DatabaseError || error instanceof Failure)) throw error; // the connection is lost
            if (words === NOT_NEWEST && name !== 'migrations')
              return notLookedAt('see migrations, tables and functions');
            return outcome === 'unknown' || words === NOT_NEWEST ? fault(words) : notLookedAt(words);
          });
    if (found.state !== 'ok') notOk.add(name);
    print(name, found);
  }
}

async function serviceAt(url: URL, key?: string): Promise<Finding> {
  const ask = async (path: string, headers = {}) => {
    const signal = AbortSignal.timeout(SERVICE_MS);
    const response = await fetch(new URL(path, url), { headers, redirect: 'error', signal });
    return { ok: response.ok, status: response.status, text: await textOf(response) };
  };
  try {
    const ready = await ask('health/ready');
    if (!ready.ok && ready.status !== 503)
      return fault(`health/ready is ${ready.status} at this address: write the service's own, without /v1`);
    if (!ready.ok) {
      const [, message = ''] = /"message":"([^"]*)"/.exec(ready.text) ?? [];
      return fault(`not ready (503): ${message} Its log has the cause ("not ready: …")`);
    }
    if (key === undefined) return ok('ready; INVENTORY_KEY is not set, so its version and log are not looked at');
    const metrics = await ask('metrics', { Authorization: `Bearer ${key}` });
    if (!metrics.ok)
      return notLookedAt(
        `ready, but /metrics is ${metrics.status}: put a valid key of scope metrics:read into INVENTORY_KEY`,
      );
    return findingOfMetrics(metrics.text);
  } catch (error) {
    const { cause, message } = error as { cause?: NodeJS.ErrnoException; message: string };
    const why = cause?.code ?? cause?.message ?? message;
    return fault(`no answer from the service (${why}); is it running? Read its last log lines`);
  }
}

/** An endless one would fill the memory. */
async function textOf({ body }: Response): Promise<string> {
  let text = '';
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    if (text.length > LONGEST_RESPONSE) throw new Error('its response is longer than 1 MB');
  }
  return text;
}

function findingOfMetrics(text: string): Finding {
  const [, running = ''] = /^inventory_build_info\{version="([^"]*)"\}/m.exec(text) ?? [];
  const [, dropped = ''] = /^inventory_log_lines_dropped_total (\d+)/m.exec(text) ?? [];
  if (Number(dropped) > 0)
    return warn(
      `ready, but lost ${dropped} log lines since its start: make room on the disk of its log, or restart its reader; this line stays until the service restarts`,
    );
  if (running !== version)
    return warn(`ready, but of version ${running}, and this command is ${version}: look with that version`);
  return ok(`ready, version ${running}, no log lines lost`);
}
