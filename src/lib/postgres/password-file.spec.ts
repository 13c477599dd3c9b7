import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { connectionConfig } from './connection-config.ts';
import { withPasswordFile } from './password-file.ts';

const DATABASE_URL = 'postgresql://user@db.example/x';

it.each([
  ['postgresql://user:secret@db.example/x', 'package.json', 'must not be set where DATABASE_URL has a password'],
  [`${DATABASE_URL}?password=x`, 'package.json', 'must not be set where DATABASE_URL has a password'],
  [DATABASE_URL, '/secret', 'names a file that cannot be read: no such file or directory'],
  [DATABASE_URL, '/dev/null', 'names a file that is empty'],
])('for the address %s, refuses the password file %s', (address, file, rule) => {
  expect(() => withPasswordFile(address, file)).toThrow(new Error(rule));
});

it('reads the password as an editor or a secret store wrote it, anew for each connection, and refuses more than one line', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'postgres-password-')), 'password');
  onTestFinished(() => rmSync(dirname(file), { recursive: true }));
  writeFileSync(file, '\uFEFF p\t\r\n\n');
  const address = withPasswordFile(DATABASE_URL, file);
  expect(address).not.toContain('p\t');
  const password = connectionConfig(address, 'test', {}).password as () => string;
  expect(password()).toBe(' p\t');
  writeFileSync(file, 'new');
  expect(password()).toBe('new');
  const rule = 'names a file that is not one line of UTF-8';
  for (const [content, problem] of [
    ['\n', 'names a file that is empty'],
    ['secret\nsecret\n', rule],
    [Buffer.from('\uFEFFsecret', 'utf16le'), rule],
    [Buffer.from('p\xe4', 'latin1'), rule],
  ] as const) {
    writeFileSync(file, content);
    expect(password()).toBe('new');
    expect(() => withPasswordFile(DATABASE_URL, file)).toThrow(new Error(problem));
  }
});
