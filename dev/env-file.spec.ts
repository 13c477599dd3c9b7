import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readEnvFile } from './env-file.ts';
import { OTEL_VARIABLES, SETTINGS } from '../src/settings.ts';

const read = (content: string | Buffer) => readEnvFile(Buffer.from(content as string));

describe('.env', () => {
  it('has empty lines, comments and assignments', () => {
    expect(read('')).toEqual({});
    expect(read("\r\n \t\r\n# it's\r\n  # x\r\nPORT=4000\r\nHOST=\nDOCS=Zoë")).toEqual({
      PORT: '4000',
      HOST: '',
      DOCS: 'Zoë',
    });
  });

  it.each([
    ['  PORT=4000\t', '4000'],
    ['export PORT=4000', '4000'],
    ['PORT="4000" # the port', '4000'],
    ["PORT=4000 # the shop's port", '4000'],
    ['PORT=a=b;', 'a=b;'],
    ["PORT=' a # $b\\n` '", ' a # $b\\n` '],
    ['PORT="it\'s # 5"', "it's # 5"],
  ])('is read in the line %j', (line, value) => {
    expect(read(line)).toEqual({ PORT: value });
  });

  it.each([
    ...['SECRET', 'SECRET: x', 'A =SECRET', 'A= SECRET', 'A=SECRET x', 'A=SECRET#x', 'A="SECRET', 'A="SECRET" x'],
    ...['A="a\\"SECRET"', 'A=${SECRET}', 'A=SECRET\rB=1', '\ufeffA=SECRET', Buffer.from('A=S\xc9CRET', 'latin1')],
  ])('is refused for the line %j, by its number', (line) => {
    const message = /^\.env, line 3: write NAME=value, in UTF-8 without a byte order mark, with blanks [^\n]+$/;
    const file = Buffer.concat(['# x\n', 'PORT=1\n', line].map((part) => Buffer.from(part as string)));
    expect(() => read(file)).toThrow(message);
    expect(() => read(file)).not.toThrow('SECRET');
  });

  it('is refused with the numbers of all lines that are not understood', () => {
    expect(() => read('a\nPORT=1\nb')).toThrow('.env, line 1, 3: write NAME=value');
  });

  it('sets in docker-compose.yml what is not its own', () => {
    const { services } = parse(readFileSync('docker-compose.yml', 'utf8'), { merge: true }) as {
      services: Record<string, { environment: object }>;
    };
    const own = ['DATABASE_URL', 'DATABASE_PASSWORD_FILE', 'PORT', 'HOST'];
    for (const service of ['setup', 'inventory', 'replica'])
      expect(Object.keys(services[service]?.environment ?? {})).toEqual(
        expect.arrayContaining([...Object.keys(SETTINGS).filter((name) => !own.includes(name)), ...OTEL_VARIABLES]),
      );
  });
});
