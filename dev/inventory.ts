import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { applyMigrations } from '../src/database/migrations.ts';
import { buildIfStale, projectFolder } from './build.ts';
import { runningProjectDatabase, startProjectDatabase } from './project-database.ts';

/* `npm run inventory -- …` on DATABASE_URL, or else on the database of `npm start`, which need not be running. */
try {
  buildIfStale();
  process.exitCode = await onDatabase(process.env['DATABASE_URL'] ?? runningProjectDatabase());
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}

async function onDatabase(url: string | undefined): Promise<number> {
  if (url) return inventory(url);
  const database = await startProjectDatabase();
  try {
    await applyMigrations(database.url);
    return await inventory(database.url);
  } finally {
    await database.stop();
  }
}

/** The command on this terminal, in the folder where npm was called. @returns its exit code */
async function inventory(url: string): Promise<number> {
  const command = spawn(process.execPath, [join(projectFolder, 'dist/cli.js'), ...process.argv.slice(2)], {
    cwd: process.env['INIT_CWD'],
    env: { ...process.env, DATABASE_URL: url },
    stdio: 'inherit',
  });
  process.on('SIGINT', () => undefined); // a Ctrl-C reaches the command by itself; here it is only waited for
  process.on('SIGTERM', () => command.kill('SIGTERM'));
  const [code] = (await once(command, 'exit')) as [number | null];
  return code ?? 1;
}
