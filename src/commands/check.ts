import type { Command } from 'commander';
import { type Client, DatabaseError, escapeLiteral, type QueryResult } from 'pg';
import {
  ALL_ROWS,
  Failure,
  queryOfClient,
  REQUEST_SETTINGS,
  schemaForPrisma,
  SESSION_SETTINGS,
} from '../lib/postgres/index.ts';
import { CHECKS, type Finding, fault, missing, ok, partsOf, skipped } from '../check/checks.ts';
import type { tryRequests } from '../check/trial.ts';
import { failureOf, NOT_NEWEST } from '../database-errors.ts';
import { withoutControls, withoutSecrets } from '../safe-text.ts';
import { readSettings, type Settings } from '../settings.ts';
import { withConnection } from './connection.ts';

const LOOK_MS = 1_000;
const LOCK_MS = 900; // less: the words of a lock say more than those of a statement that was cut off
const limits = { connectionTimeoutMillis: 3_000, query_timeout: 4 * LOOK_MS }; // for when PostgreSQL does not answer

/** What is so, in lines of 80 characters; below it what to do, a line each. */
const WIDTH = 63;
const BELOW = `\n${' '.repeat(17)}`;

export function addCheck(program: Command): void {
  program
    .command('check')
    .summary('Says what is wrong with the database, and what to do.')
    .description(
      'Looks at the database of DATABASE_URL, and tries a list and two updates, which are undone. Prints ok, warn or fault for each, and what to do. Exits with 1 if there is a fault. Run it as the role and on the machine of the service.',
    )
    .option('--read-only', 'try nothing')
    .addHelpText(
      'after',
      `
The updates are tried on one pet and rolled back. They use up ids of the history and a transaction id, keep others
from the pet for at most three seconds, and run your triggers: what those do outside the database is not undone.`,
    )
    .action(check);
}

async function check({ readOnly = false }: { readOnly?: boolean }): Promise<void> {
  let faults = 0;
  const print = (name: string, { state, message, below }: Finding) => {
    const [first = '', ...rest] = [message, ...below].map((text) => withoutControls(withoutSecrets(text)));
    const wrapped = first.match(new RegExp(`.{1,${WIDTH}}(?: |$)|\\S+ ?`, 'g'))?.map((line) => line.trimEnd()) ?? [];
    const lines = [...wrapped, ...rest.map((line) => `  ${line}`)];
    console.log(`${state.padEnd(5)} ${name.padEnd(10)} ${lines.join(BELOW)}`);
    if (state === 'fault') faults++;
  };
  try {
    const settings = readSettings();
    const trial = readOnly ? undefined : (await import('../check/trial.ts')).tryRequests; // a session would wait while it loads
    await withConnection('check', (client) => look(client, settings, print, trial), limits, null);
  } catch (error) {
    print('address', fault(...partsOf(failureOf(error).words)));
  }
  if (faults > 0) throw new Failure(`${faults} of the lines above ${faults === 1 ? 'is a fault' : 'are faults'}`);
}

/** Sets nothing that the session keeps: behind a pooler, others get it next, and each statement may get another. */
async function look(
  client: Client,
  { DATABASE_URL }: Settings,
  print: (name: string, found: Finding) => void,
  trial?: typeof tryRequests,
): Promise<void> {
  const { user, host, port, database } = client;
  const mode = new Map(new URL(DATABASE_URL).searchParams).get('sslmode') ?? 'disable'; // of several, the last counts
  print('address', ok(`${user}@${host}:${port}/${database}, sslmode ${mode}`));
  const bounds = { lock_timeout: String(LOCK_MS), statement_timeout: String(LOOK_MS) };
  const setLocal = (settings: Readonly<Record<string, string>>) =>
    [
      `SET LOCAL search_path = "${schemaForPrisma(DATABASE_URL)}"`,
      ...Object.entries({ ...SESSION_SETTINGS, ...bounds, ...settings }).map(
        ([name, value]) => `SET LOCAL ${name} = ${escapeLiteral(value)}`,
      ),
    ].join(';');
  const query = async (sql: string) => {
    const settings = setLocal({ transaction_read_only: 'on', ...ALL_ROWS });
    return ((await client.query(`${settings};${sql}`)) as unknown as QueryResult[]).at(-1)?.rows; // one transaction
  };
  const begin = `BEGIN ISOLATION LEVEL READ COMMITTED; ${setLocal(REQUEST_SETTINGS)}`;
  const tried: typeof CHECKS = trial ? [['trial', () => trial(queryOfClient(client), begin), 'migrations']] : [];
  const notOk = new Set<string>();
  for (const [name, runCheck, needs] of [...CHECKS, ...tried]) {
    const found =
      needs !== undefined && notOk.has(needs)
        ? skipped(`see ${needs}`)
        : await runCheck(query).catch((error: unknown) => {
            const { outcome, words } = failureOf(error);
            if (!(error instanceof DatabaseError || error instanceof Failure)) throw error; // the connection is lost
            if (words === NOT_NEWEST && name !== 'migrations')
              return notOk.has('migrations') ? skipped('see migrations') : fault(...missing(error));
            return outcome === 'unknown' || words === NOT_NEWEST || name === 'trial'
              ? fault(...partsOf(words))
              : skipped(...partsOf(words));
          });
    if (found.state !== 'ok') notOk.add(name);
    print(name, found);
  }
}
