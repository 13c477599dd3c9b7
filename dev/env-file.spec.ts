import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseEnvFile, unknownName } from './env-file.ts';
import { SETTINGS } from '../src/settings.ts';

const read = (content: string | Buffer) =>
  parseEnvFile(Buffer.from(content as string)).map(({ line, name, value }) => [line, name, value]);
const utf16 = (text: string) => Buffer.from(text, 'utf16le');

describe('.env', () => {
  const text = 'PORT=4000\r\n\r\nHOST=Zoë\r\n';
  it.each([
    ['UTF-8', Buffer.from(text)],
    ['UTF-8 with a mark', Buffer.from(`\ufeff${text}`)],
    ['UTF-16 with a mark', utf16(`\ufeff${text}`)],
    ['UTF-16', utf16(text)],
    ['big-endian UTF-16 with a mark', utf16(`\ufeff${text}`).swap16()],
    ['big-endian UTF-16', utf16(text).swap16()],
    ['UTF-8 with line ends of an old Mac', text.replaceAll('\r\n', '\r')],
  ])('is read in %s', (_, content) => {
    expect(read(content)).toEqual([
      [1, 'PORT', '4000'],
      [3, 'HOST', 'Zoë'],
    ]);
  });

  it.each([
    ['PORT=4000', '4000'],
    ['  PORT = 4000\t', '4000'],
    ['\u00a0PORT=\u00a04000\ufeff', '4000'],
    ['export PORT=4000', '4000'],
    ['export PORT=4000;', '4000'],
    ['declare -x PORT="4000"', '4000'],
    ['set PORT=4000', '4000'],
    ['$env:PORT=4000', '4000'],
    ['$Env:PORT = "4000";', '4000'],
    ["PORT='4000'", '4000'],
    ['PORT="4000" # the port', '4000'],
    ['PORT=4000 # the port', '4000'],
    ['PORT= # none', ''],
    ['PORT=', ''],
    ["PORT=''", ''],
    ['PORT=a#b', 'a#b'],
    ['PORT=a;', 'a;'],
    ['PORT=a=b c', 'a=b c'],
    ["PORT=' a # $b\\n '", ' a # $b\\n '],
    ['PORT="it\'s # 5 $"', "it's # 5 $"],
    ["PORT=it's", "it's"],
    ['PORT=-c a_b=5 C', '-c a_b=5 C'],
    ['PORT=C:\\run', 'C:\\run'],
  ])('is read in the line %j', (line, value) => {
    expect(read(line)).toEqual([[1, 'PORT', value]]);
  });

  it('has empty lines and comments', () => {
    expect(read('')).toEqual([]);
    expect(read('\ufeff')).toEqual([]);
    expect(read('\n \t\n# PORT=1\n  # x')).toEqual([]);
  });

  const ENCODING = 'has a character that is neither UTF-8 nor UTF-16. Save the file as UTF-8';
  const QUOTE = 'needs one closing quote, with nothing but a comment after it';
  const REPLACED = 'has $ or `, which is not replaced. Put the value in single quotes';
  it.each([
    ...['SECRET', 'SECRET: x', '; SECRET', 'export SECRET', 'SECRET+=x', '=SECRET', 'setx A SECRET', '1SECRET=x'],
    ...['set "A=SECRET"', '\u200bA=SECRET', 'A\uff1dSECRET', '$SECRET = 5', '[SECRET]', 'A-\u00e4=SECRET'],
  ])('is refused for the line %j, which is no assignment', (line) => {
    expect(() => read(`PORT=1\n${line}`)).toThrow(new Error('.env, line 2: is not NAME=value'));
  });
  const SECOND = 'has a second assignment. Write it on a line of its own, or put the value in single quotes';
  it.each([
    ['A="SECRET', QUOTE],
    ['A=SECRET LOG_LEVEL=SECRET', SECOND],
    ['export A=SECRET B=SECRET', SECOND],
    ['A=SECRET; export A; B=SECRET', SECOND],
    ['set A=SECRET & set B=SECRET', SECOND],
    ['A=SECRET; export A', 'has a command after the value. Remove it, or put the value in single quotes'],
    ["A='SECRET\n'", QUOTE],
    ['A="SECRET" x', QUOTE],
    ["A='it'\\''s'", QUOTE],
    ['A="a\\"b"', 'has a backslash in double quotes. Put the value in single quotes'],
    ['A=\u201cSECRET\u201d', "has quotes of a word processor. Use ' instead"],
    ['A=${SECRET}', REPLACED],
    ['A="x$SECRET"', REPLACED],
    ['A=$(cat SECRET)', REPLACED],
    ['A=`cat SECRET`', REPLACED],
    ["A=$'SECRET'", REPLACED],
    [Buffer.from('A=S\xc9CRET', 'latin1'), ENCODING],
    [Buffer.concat([Buffer.from('A=something long in UTF-8\n'), utf16('B=SECRET\r\n')]), ENCODING, 2],
    [Buffer.concat([Buffer.from('B=\n'), utf16('B=SECRET, longer than that\r\n')]), 'is not NAME=value'],
    [Buffer.from([0xff, 0xfe, 0x41, 0, 0x3d, 0, 0, 0xd8]), ENCODING],
    [Buffer.from([0xff, 0xfe, 0, 0, 0x41, 0, 0, 0, 0x3d, 0, 0, 0]), ENCODING],
  ])('is refused for %j', (content, fault, line = 1) => {
    expect(() => read(content)).toThrow(new RegExp(`^\\.env, line ${line}: ${fault.replace(/[$]/g, '\\$')}(\\n|$)`));
    expect(() => read(content)).not.toThrow('SECRET');
  });

  it('names each line that it does not understand', () => {
    expect(() => read('a\nPORT=1\nb')).toThrow('.env, line 1: is not NAME=value\n.env, line 3: is not NAME=value');
  });

  it('has names that the service, Compose, Node.js, npm or an override file of Compose knows', () => {
    const known =
      `PORT POSTGRES_PASSWORD BALANCER_PORT POOL_MODE COMPOSE_PROJECT_NAME DOCKER_HOST PGUSER PGPASSWORD PGSSLMODE
      NODE_OPTIONS UV_THREADPOOL_SIZE NO_COLOR SSL_CERT_FILE OTEL_SERVICE_NAME
      npm_config_registry HTTPS_PROXY no_proxy TZ SHOP_TLS SHOP_LOG SHOP_DEBUG`.split(/\s+/);
    const compose = readFileSync('docker-compose.yml', 'utf8');
    const override = 'environment:\n  A: $SHOP_LOG/${SHOP_TLS:?}\n  SHOP_DEBUG:\n';
    expect(known.filter((name) => unknownName(name, [compose, override]) !== undefined)).toEqual([]);
    expect(unknownName('told', [compose])).toBeDefined(); // $$told is a variable of a command
    expect(unknownName('SHOP_TLS', [compose])?.text).toBe('is not known to the service or to docker-compose.yml');
    for (const [name, intended] of [
      ['port', 'PORT'],
      ['DATABASE_POOLSIZE', 'DATABASE_POOL_SIZE'],
      ['POSTGRES_PASWORD', 'POSTGRES_PASSWORD'],
      ['PGSLMODE', 'PGSSLMODE'],
    ] as const)
      expect(unknownName(name, [compose])).toEqual({ text: `is not known; ${intended} is`, intended });
  });

  it('sets in docker-compose.yml what is not its own', () => {
    const { services } = parse(readFileSync('docker-compose.yml', 'utf8'), { merge: true }) as {
      services: Record<string, { environment: object }>;
    };
    const own = ['DATABASE_URL', 'DATABASE_PASSWORD_FILE', 'PORT', 'HOST'];
    for (const service of ['setup', 'inventory', 'replica'])
      expect(Object.keys(services[service]?.environment ?? {})).toEqual(
        expect.arrayContaining(Object.keys(SETTINGS).filter((name) => !own.includes(name))),
      );
  });
});
