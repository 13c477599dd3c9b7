import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';

function prisma(args: string, engine = '') {
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: engine };
  const program = ['dev/prisma.ts', ...args.split(' ')];
  const { status, stdout, stderr } = spawnSync(process.execPath, program, { env, input: 'SELECT 1', encoding: 'utf8' });
  return { status, stdout, stderr };
}

it.each([
  'migrate diff --from-empty --to-schema prisma/schema.prisma',
  'migrate status',
  'db pull',
  'db execute --stdin',
])('npm run prisma says in one line what to do instead of %s, which would do nothing', (args) => {
  const here = 'write migrations by hand (CONTRIBUTING.md), and apply them: npm run inventory -- migrate';
  const line = `prisma ${args.split(' ')[0]} needs Prisma's schema engine, which is not installed; ${here}\n`;
  expect(prisma(args)).toEqual({ status: 1, stdout: '', stderr: line });
});

it('npm run prisma runs what needs no engine, and everything with an engine', () => {
  expect(prisma('validate')).toMatchObject({ status: 0, stdout: expect.stringContaining('is valid') as string });
  expect(prisma('migrate diff --help', process.execPath).stdout).toContain('Compares the database schema');
});
