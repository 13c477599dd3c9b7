import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';

/** Runs `npm run prisma` in a project whose Prisma prints its arguments and its engine. */
function prisma(args: string, PRISMA_SCHEMA_ENGINE_BINARY = '') {
  const folder = mkdtempSync(join(tmpdir(), 'inventory-prisma-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const file of ['prisma.ts', 'build.ts']) cpSync(`dev/${file}`, join(folder, 'dev', file));
  const theirs = join(folder, 'node_modules/prisma/build');
  mkdirSync(theirs, { recursive: true });
  const prints = 'console.log(process.argv.slice(2).join(), process.env.PRISMA_SCHEMA_ENGINE_BINARY)';
  writeFileSync(join(theirs, 'index.js'), prints);
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY };
  const program = [join(folder, 'dev/prisma.ts'), ...args.split(' ')];
  const { status, stdout, stderr } = spawnSync(process.execPath, program, { env, encoding: 'utf8' });
  return { status, stdout, stderr };
}

it.each(['migrate status', 'db pull'])(
  'npm run prisma says in one line what to do instead of %s, which would do nothing',
  (args) => {
    const here = 'write migrations by hand (CONTRIBUTING.md), and apply them: npm run inventory -- migrate';
    const line = `prisma ${args.split(' ')[0]} needs Prisma's schema engine, which is not installed; ${here}\n`;
    expect(prisma(args)).toEqual({ status: 1, stdout: '', stderr: line });
  },
);

it('npm run prisma runs what needs no engine, and everything with an engine', () => {
  expect(prisma('validate')).toEqual({ status: 0, stdout: `validate ${process.execPath}\n`, stderr: '' });
  expect(prisma('db pull', 'engine')).toEqual({ status: 0, stdout: 'db,pull engine\n', stderr: '' });
});
