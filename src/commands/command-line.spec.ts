import type { Command } from 'commander';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Failure } from '../errors/error-text.js';
import { commandLine } from './command-line.js';

/** The parser of the command in this process, and what it prints. */
function parser() {
  const program = commandLine();
  let printed = '';
  const output = { writeErr: () => undefined, writeOut: (text: string) => void (printed += text) };
  const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)];
  for (const command of all(program)) command.exitOverride().configureOutput(output);
  return {
    parse: (line: string) => program.parseAsync(line.split(' ').slice(1), { from: 'user' }),
    printed: () => printed,
  };
}

it.each([
  'inventory',
  'inventory keys',
  'inventory bogus',
  'inventory import',
  'inventory import x.csv --missing maybe',
  'inventory keys revoke',
  'inventory keys rotate',
  'inventory keys rotate 1 --expires never',
  'inventory history 01',
  'inventory history 1 --follow',
  'inventory history 1 --after 1',
  'inventory history 0 --verify',
  'inventory history --after -1',
  'inventory history --after x',
  'inventory history prune',
  'inventory history --follow --verify',
  'inventory history --after 1 --limit 5',
  'inventory history --follow --since 1h',
  'inventory history --verify --after 1',
  'inventory history --after 1 --since 1h',
  'inventory history --verify --limit 5',
  'inventory history --verify --since 1h',
  'inventory import x.csv --format xml',
  'inventory export --format xml',
  'inventory keys create --name till --scope all',
  'inventory history --limit',
  'inventory history --limit 0',
  'inventory history --limit 100001',
])('refuses wrong use: %s', async (line) => {
  const refused = parser().parse(line);
  await expect(refused).rejects.toMatchObject({ exitCode: 1, code: expect.stringMatching(/^commander\./) as string });
});

it.each([
  ['history 1 --follow', 'error: --verify, --after and --follow are for all pets: leave the petId out'],
  ['history 01', 'It must be an int64 in plain digits.'],
  ['history --after -1', 'It must be the id of a change, or 0.'],
  ['history --limit 0', 'It must be an integer from 1 to 100000.'],
])('%s prints: %s', async (line, told) => {
  await expect(parser().parse(`inventory ${line}`)).rejects.toThrow(told);
});

it.each(['keys create', 'history show'])('the example in the help of %s is right use', async (command) => {
  vi.stubEnv('DATABASE_URL', 'no address');
  onTestFinished(() => void vi.unstubAllEnvs());
  const { parse, printed } = parser();
  await expect(parse(`inventory ${command} --help`)).rejects.toMatchObject({ code: 'commander.helpDisplayed' });
  const [, example = ''] = /\nExample:\n {2}(inventory .*)\n$/.exec(printed()) ?? [];
  const line = example.replace('"$(inventory history cursor)"', '0').replace(/ > \S+$/, '');
  await expect(parser().parse(line)).rejects.toBeInstanceOf(Failure);
});

it.each(['1', '99999', '100000'])('takes a --limit of %s', async (limit) => {
  vi.stubEnv('DATABASE_URL', 'no address');
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(parser().parse(`inventory history --limit ${limit}`)).rejects.toBeInstanceOf(Failure);
});

it.each(['migrate', 'keys list', 'history 1', 'export', 'import x.csv'])(
  '%s reads the password from its file',
  async (line) => {
    vi.stubEnv('DATABASE_URL', 'postgresql://me@127.0.0.1:1/x');
    vi.stubEnv('DATABASE_PASSWORD_FILE', '/no/such/file');
    vi.spyOn(process.stdout, 'write').mockReturnValue(true); // export writes that it failed
    onTestFinished(() => void vi.unstubAllEnvs().restoreAllMocks());
    await expect(parser().parse(`inventory ${line}`)).rejects.toThrow(/^DATABASE_PASSWORD_FILE/);
  },
);

const DATE_TIME =
  'a duration such as 30s, 15m, 12h, 30d or 4w, or an ISO date such as 2027-01-31 or 2027-01-31T12:00:00Z';

it.each([
  [
    'import',
    'Sets the stock from a file: all rows or none. Pets that do not change are not written.',
    'file the file, or - for standard input; a file named *.gz is unpacked',
    '--format <format> the format of the file (default: by its name) (choices: "csv", "ndjson", "json")',
    '--missing <what> what happens to pets that are not in the file (choices: "keep", "remove", default: "keep")',
    '--by <who> the author in the history (default: user@host and the name of the file)',
    '--new <what> what happens to rows whose pet is not in the store, if that has pets (choices: "refuse", "add", "add-as-written", default: "refuse")',
    '--stale <what> what happens to edited rows whose pet has changed since the export (choices: "refuse", "skip", default: "refuse")',
    '--dry-run check the file and show the changes, but write nothing',
    '--quiet show only errors',
    '--json write the summary to standard output as JSON, with all pets',
    'csv has a header line. ndjson has an object in each line. json is an array of such objects. Each pet has:',
    'From standard input, "--missing remove" needs "# end" as the last line, so that an interrupted transfer removes nothing:',
  ],
  [
    'export',
    'Writes all pets of one moment, by ascending id. If it fails, the last line is "# failed", which no import accepts.',
    '--format <format> the format of the output (choices: "csv", "ndjson", "json", default: "csv")',
    '--end-mark end csv and ndjson with a line "# end", which tells an import that it has all pets, and of when',
    '--editable add a column "exported", by which an import knows what was edited, and what has changed since',
  ],
  ['history', 'show [options] [petId] Shows the changes, newest first, or follows or checks them.'],
  [
    'history show',
    'Shows the changes, newest first, or follows or checks them. You can leave out the word "show".',
    'petId show the changes of this pet (default: all pets)',
    `--since <when> only changes since then: ${DATE_TIME}`,
    '--limit <count> the most changes to show, or to begin with if --follow is given (default: 50)',
    '--after <id> all changes of all pets after this one, each once, by ascending id',
    '--follow continue with new changes as they happen',
    '--verify check that each history is unbroken and ends in the stock',
    '--json print JSON; with --after or --follow, one object per line',
  ],
  ['history cursor', 'Prints the id of the newest change, for --after. A later export has all changes up to it.'],
  [
    'history prune',
    'Deletes old changes. It keeps the newest change of each pet, so that --verify still works.',
    `--before <when> delete changes older than this: ${DATE_TIME}`,
  ],
  ['keys', 'create [options]', 'list [options]', 'revoke <id>', 'rotate [options] <id>'],
  [
    'keys create',
    'Issues a key. Standard output gets only the key, once; standard error gets everything else.',
    '--name <name> the holder of the key, up to 100 characters',
    '--scope <scope...> what the key may do (choices: "inventory:read", "inventory:write", "metrics:read", default: ["inventory:read","inventory:write"])',
    `--expires <when> when the key expires: ${DATE_TIME} (default: never)`,
  ],
  [
    'keys list',
    'Lists all keys with their state: live, expired or revoked. "Last used" is up to ten minutes behind.',
    '--json print a JSON array',
  ],
  [
    'keys revoke',
    'Revokes a key at once, in every running process. A revoked key stays revoked.',
    'id id of the key, as "inventory keys list" shows it',
  ],
  [
    'keys rotate',
    'Issues a successor with the same name and scopes. The old key expires after the overlap.',
    'id id of the key to replace',
    '--overlap <duration> how long both keys are valid: 30s, 15m, 12h, 30d or 4w (default: 24h)',
    `--expires <when> when the key expires: ${DATE_TIME} (default: never)`,
  ],
  ['migrate', 'Applies the migrations that the database lacks. You can repeat it, and run several at once.'],
])('the help of %s says what each option does', async (command, ...told) => {
  const { parse, printed } = parser();
  await expect(parse(`inventory ${command} --help`)).rejects.toMatchObject({ code: 'commander.helpDisplayed' });
  const words = printed().replaceAll(/\s+/g, ' ');
  for (const each of told) expect(words).toContain(` ${each} `);
});

it('names the members of a pet in the help of import, and the end mark that its example needs', async () => {
  const { parse, printed } = parser();
  await expect(parse('inventory import --help')).rejects.toMatchObject({ code: 'commander.helpDisplayed' });
  for (const member of [
    'petId: an integer from -9223372036854775808 to 9223372036854775807, in plain digits\n',
    'quantity: an integer from 0 to 2147483647\n',
    'status: one of available, pending, sold\n',
  ])
    expect(printed()).toContain(`\n  ${member}`);
  const example = '  inventory export --end-mark | ssh elsewhere inventory import - --format csv --missing remove\n';
  expect(printed().slice(-example.length)).toBe(example);
});
