import { existsSync, readFileSync } from 'node:fs';
import type { Results, ScenarioResults } from './results.ts';
import type { Scenario } from './scenarios.ts';
import {
  digits,
  isQuietList,
  linesOf,
  operatorHead,
  operatorRows,
  shares,
  verdicts,
  withInterval,
  type Verdict,
} from './summary.ts';

/** Of the two ideas that the peer "NestJS + Prisma" does without. */
const IDEAS_LINES = ['list-cache', 'stock-list', 'quantity-updates']
  .map((name) => readFileSync(new URL(`../src/inventory/${name}.ts`, import.meta.url), 'utf8').split('\n').length - 1)
  .reduce((sum, lines) => sum + lines);

/** What a person wrote about the figures: what was tried where a goal is missed. It is taken over as it stands. */
const notesFile = new URL('notes.md', import.meta.url);

const groups: readonly [heading: string, belongs: (scenario: Scenario) => boolean][] = [
  ['Lists, nothing written meanwhile', isQuietList],
  [
    'Lists while stock changes',
    (scenario) =>
      scenario.kind === 'anew' || scenario.kind === 'mixed' || (scenario.kind === 'list' && !isQuietList(scenario)),
  ],
  ['Lists that have not changed (`If-None-Match`, 304)', ({ kind }) => kind === 'unchanged'],
  ['Updates', ({ kind }) => kind === 'update' || kind === 'hot'],
];

/** The whole of docs/performance.md. */
export function report(results: Results): string {
  return `${[
    '# Performance',
    introduction(results),
    '## Goals',
    goals(results),
    ...section(
      '## Lists with writes beside, as a share of the same list with none',
      sharesTable(results),
      readingShares,
    ),
    ...section('## What operators ask first', operatorsTable(results), readingOperators),
    '![Ratios to Fastify + pg](performance-ratios.svg)',
    '![Lists a second](performance-lists.svg)',
    '![Updates a second](performance-updates.svg)',
    '## Figures',
    howToRead,
    ...measured(results),
    '## What is batched and what is kept',
    batchedAndKept,
    '## Method',
    method(results),
    // Its links are written for where it lies itself.
    ...(existsSync(notesFile) ? [readFileSync(notesFile, 'utf8').trim().replaceAll('](../docs/', '](')] : []),
  ]
    .filter((part) => part !== '')
    .join('\n\n')}\n`;
}

/** What is told on the terminal: the tables alone. */
export function tables(results: Results): string {
  return [...measured(results), sharesTable(results), operatorsTable(results), goals(results)]
    .filter((part) => part !== '')
    .join('\n\n');
}

function measured(results: Results): string[] {
  const tables = groups.flatMap(([heading, belongs]) => {
    const found = results.scenarios.filter(({ scenario }) => belongs(scenario));
    return found.length === 0 ? [] : [`### ${heading}`, figures(found)];
  });
  return [...tables, exclusions(results)];
}

function introduction({ machine, startedAt, minutes, postgresVersion }: Results): string {
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  return `This page is written by \`npm run bench\`, which took ${minutes} minutes on ${startedAt.slice(0, 10)}.

Machine: ${machine.processor}, ${machine.cores} cores, ${machine.memoryGb} GB, Linux ${machine.kernel}, load ${digits(machine.loadAtStart)} at the start.
The load generator, the program and PostgreSQL share these cores.
Versions: PostgreSQL ${postgresVersion}, ${versions.join(', ')}.`;
}

function goals(results: Results): string {
  return verdictTable(['requests/s of this service', 'wanted', 'measured', 'reached'], verdicts(results));
}

/** Nothing, heading included, where nothing was measured. */
function section(heading: string, tables: string, text: string): string[] {
  return tables === '' ? [] : [heading, tables, text];
}

function sharesTable(results: Results): string {
  const found = shares(results);
  const head = ['lists/s of this service', 'wanted', 'share of the same without', 'reached'];
  return found.length === 0 ? '' : verdictTable(head, found);
}

function verdictTable(head: readonly string[], found: readonly Verdict[]): string {
  const told = (reached?: boolean) => (reached === undefined ? '' : reached ? 'yes' : '**no**');
  const rows = found.map(({ what, wanted, found, reached }) => [what, wanted, found, told(reached)]);
  return table(head, rows);
}

const readingShares = `The share is that of the same round, in which the two run one after the other; the median of the rounds, with the lowest and the
highest. The rows "elsewhere" are the control: the updates go to another instance of the service on another PostgreSQL
server. What they cost the machine, whoever gets them, is gone there already, so more than that share cannot be left.`;

function operatorsTable(results: Results): string {
  const rows = operatorRows(results);
  return rows.length === 0 ? '' : table(operatorHead, rows);
}

const readingOperators = `Cold start is the median of five, from the start of the process to the first 200: of \`/health/ready\` for this service, of a list of
ten pets for the peers, which have no such page. Memory is what is resident ten seconds after the start without a request, then after
one list. Each program gets 50 requests/s for 20 seconds, after three to warm up, each sent when its time has come, on a connection of its own where all others wait.`;

const howToRead = `\`times\` is this service's requests/s by the other's in the same round: the median of the rounds, with the lowest and the highest where
there is more than one; above 1 this service is ahead. All else is the median of the rounds: requests/s, the time of the middle request and of
the slowest hundredth in milliseconds, CPU time per request of the program and of PostgreSQL in microseconds; but the program's
memory in MB is its highest peak. On shared cores requests/s drift with the machine, CPU time much less: it
tells how much a core can carry. The times are those of a closed loop: each connection waits for its response before it asks again, so
they show how long a full queue is. What a lone caller sees is in the rows with 1 connection and in the table above.`;

function figures(found: readonly ScenarioResults[]): string {
  const rows = found.flatMap((each) =>
    linesOf(each).map((line, index) => [
      index === 0 ? each.scenario.title : '',
      line.label,
      digits(line.requestsPerSecond),
      line.ratio ? withInterval(line.ratio) : '',
      `${digits(line.p50Ms)} / ${digits(line.p99Ms)}`,
      `${digits(line.programCpuUs)} + ${digits(line.postgresCpuUs)}`,
      digits(line.peakMemoryMb),
      [
        line.failures > 0 ? `${line.failures} failed` : '',
        each.scenario.updatesPerSecond > 0 && !each.scenario.elsewhere
          ? `${digits(line.updatesPerSecond)} updates/s done`
          : '',
        ...line.faults,
      ]
        .filter((remark) => remark !== '')
        .join('; '),
    ]),
  );
  return table(['scenario', 'program', 'requests/s', 'times', 'p50 / p99 ms', 'CPU µs', 'MB', 'remarks'], rows);
}

function exclusions({ disqualified }: Results): string {
  if (disqualified.length === 0) return '';
  const lines = disqualified.map(({ contender, scenario, reason }) => `- ${contender}, ${scenario}: ${reason}`);
  return `Not measured:\n\n${lines.join('\n')}`;
}

const batchedAndKept = `This service does what the peers do not, and its lead comes from there:

- **Batched:** requests that arrive while a database round trip is under way share the next one. One statement looks up
  the keys of all who wait; one statement applies the updates that wait, each with its own history row. Nothing is delayed
  to fill a batch, and no response comes from a statement older than its request.
- **Kept:** the bytes of the last list, in pieces of 1,024 pets, with its \`ETag\`; each piece in gzip, too, once that was asked for. The key
  check of every request also asks what PostgreSQL shows now. While nothing was committed the bytes are sent as they are. Otherwise
  one statement reads the pets that have changed, once for all who wait, and only their pieces are made anew.
- **Not kept:** keys. Every request has its key looked up in the database, as the peers do.

With one connection there is nothing to share, and the figures show what the layers themselves cost.

"NestJS + Prisma" is this very service with \`findMany\` in the place of the kept list and an interactive transaction in the place of the batched
update: the 60 lines of \`test/support/plain-inventory.ts\` instead of the ${IDEAS_LINES} of \`list-cache\`, \`stock-list\` and \`quantity-updates\`.
So its rows say what the two ideas buy. It shares the key check, the third.`;

function method({ machine, pgbenchClients }: Results): string {
  const limit = pgbenchClients
    ? `pgbench sends the peers' update with its history row from ${pgbenchClients} clients, the number at which it was fastest of 8, 16, 32 and 64, without HTTP, keys or JSON.`
    : 'pgbench was not installed, so that limit is missing.';
  return `- PostgreSQL is started for the benchmark alone, with durable commits (\`fsync\` and \`synchronous_commit\` on). Checkpoints and
  vacuum run between the measurements: the store is filled afresh after everything that writes.
- Round 1 of all scenarios comes first, then round 2 of all, and so on, each round on a PostgreSQL server of its own: rounds that
  follow each other directly differ less than runs do. Every second round runs backwards, so that drift falls on all
  alike. Each measurement has a fresh process, a second to warm up and then some seconds. The less important peers take part in the first round only.
- All run on the same Node.js in production mode, with logging off and ten database connections. The peers use named statements; Fastify has schemas
  for bodies and answers; Express has its ETag and query parser off.
- All make the same promises: the key's SHA-256 looked up in the database for every request, with expiry, revocation and
  scopes; the list complete, in order and exact to the last digit of an int64; the body validated; the update answered with the pet after its commit, one history row
  written by the same statement. "Key in memory, no history" is the weaker promise that many settle for.
  "List kept until it writes itself" is the usual cache: it never shows what another process or an operator has written.
- Fastify looks the key up in one statement and does the work in another, as it is usually written. "Key in the same statement" is a
  variant that joins the two and saves a round trip, for the scenarios in which these are most of the work.
- Before it is measured each program has to pass a check: keys unknown, expired, revoked a moment ago and without the scope;
  malformed and extreme input; the history row. Before each scenario its list is compared, byte for byte, with the one that the database makes.
  After each run of updates the history has to hold as many rows as updates were accepted, each continuing from the one before, and each
  pet the quantity of its newest row.
- The load comes from ${'wrk' in machine.versions ? 'wrk' : 'autocannon'} on one thread; updates go to pets at random, each with another quantity.
- ${limit} The bare server is \`node:http\` sending a buffer of the list's size, without key or database.`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
