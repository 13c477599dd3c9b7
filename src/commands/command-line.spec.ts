import type { Command } from 'commander';
import { expect, it, onTestFinished, vi } from 'vitest';
import { makeKey } from '../keys/api-key-format.ts';
import { Failure } from '../lib/postgres/index.ts';
import { commandLine } from './command-line.ts';

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
  'inventory bogus',
  'inventory import x.csv --missing maybe',
  'inventory export --format xml',
  'inventory history 1 --after 1',
  'inventory history prune',
  'inventory history --follow --verify',
  'inventory history --after 1 --limit 5',
  'inventory history --follow --since 1h',
  'inventory history --verify --request x',
  'inventory history --follow --by key:x',
  'inventory export --at=-1',
])('refuses wrong use: %s', async (line) => {
  const refused = parser().parse(line);
  await expect(refused).rejects.toMatchObject({ exitCode: 1, code: expect.stringMatching(/^commander\./) as string });
});

it.each([
  ['history 1 --follow', 'error: --verify, --after and --follow are for all pets: leave the petId out'],
  ['history 01', 'It must be an int64 in plain digits.'],
  ['history --after -1', 'It must be the id of a change, or 0.'],
  ['history --limit 0', 'It must be an integer from 1 to 100000.'],
  ['history --request=a:b', 'It must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key.'],
  ['history --by=', 'It must have 1 to 1000 printable characters.'],
  ['export --at 1 --editable', "error: option '--at <moment>' cannot be used with option '--editable'"],
  ['export --at 1 --end-mark', "error: option '--at <moment>' cannot be used with option '--end-mark'"],
  ['export --at 007', 'It must be the id of a change, an age such as'],
  ['import x --by=', 'It must have 1 to 200 printable characters.'],
  ['import x --reason=', 'It must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key.'],
  [`import x --reason=${makeKey()}`, 'It must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key.'],
  ['keys create --scope=metrics:read', "required option '--name <name>' not specified"],
  ['keys create --name=', 'It must have 1 to 100 printable characters.'],
  ['keys create --name=x --scope=inventory:all', 'Allowed choices are inventory:read, inventory:write, metrics:read.'],
  ['keys create --name=x --expires=soon', 'It must be a duration such as'],
  ['keys create --name=x --expire=1d', 'Did you mean --expires?'],
])('%s prints: %s', async (line, message) => {
  await expect(parser().parse(`inventory ${line}`)).rejects.toThrow(message);
});

it.each(['keys create', 'history'])('the example in the help of %s is right use', async (command) => {
  vi.stubEnv('DATABASE_URL', 'no address');
  onTestFinished(() => void vi.unstubAllEnvs());
  const { parse, printed } = parser();
  await expect(parse(`inventory ${command} --help`)).rejects.toMatchObject({ code: 'commander.helpDisplayed' });
  const [, example = ''] = /\nExample:\n {2}(inventory .*)\n$/.exec(printed()) ?? [];
  const line = example.replace('"$(inventory history cursor)"', '0').replace(/ > \S+$/, '');
  await expect(parser().parse(line)).rejects.toBeInstanceOf(Failure);
});

it('history --help shows the options of "history show", which is the default', async () => {
  const { parse, printed } = parser();
  await expect(parse('inventory history 1 --help')).rejects.toMatchObject({ code: 'commander.helpDisplayed' });
  expect([...printed().matchAll(/^ {2}(\S+)/gm)].map(([, term]) => term)).toEqual([
    ...['petId', '--since', '--request', '--by', '--limit', '--after', '--follow', '--verify', '--json', '-h,'],
    ...['cursor', 'prune', 'help', 'inventory'],
  ]);
});

it.each(['migrate', 'keys list', 'history 1', 'export', 'import x.csv'])(
  '%s reads the password from its file',
  async (line) => {
    vi.stubEnv('DATABASE_URL', 'postgresql://me@127.0.0.1:1/x');
    vi.stubEnv('DATABASE_PASSWORD_FILE', '/no/such/file');
    const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true); // export writes that it failed
    onTestFinished(() => {
      vi.unstubAllEnvs();
      written.mockRestore();
    });
    await expect(parser().parse(`inventory ${line}`)).rejects.toThrow(/^DATABASE_PASSWORD_FILE/);
  },
);
