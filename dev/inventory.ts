import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { applyMigrations } from '../src/migrations/migrations.ts';
import { buildIfStale, projectFolder } from './build.ts';
import { loadEnvFile } from './env-file.ts';
import { inPlainWords, runningProjectDatabase, startProjectDatabase } from './project-database.ts';

/* `npm run inventory -- …` on DATABASE_URL, or else on the database of `npm start`, which need not be running. */
let interrupt = (): void => process.exit(130);
process.on('SIGINT', () => interrupt());
try {
  loadEnvFile();
  buildIfStale();
  const { DATABASE_URL = '' } = process.env;
  const present = DATABASE_URL || runningProjectDatabase();
  const database = present ? undefined : await startProjectDatabase();
  if (database) await applyMigrations(database.url);
  if (!DATABASE_URL) console.error('This works on the demo database in .data/. Set DATABASE_URL for another one.');

  interrupt = () => undefined; // from here on a Ctrl-C reaches the command by itself, which is only waited for
  const command = spawn(process.execPath, [join(projectFolder, 'dist/cli.js'), ...process.argv.slice(2)], {
    cwd: process.env['INIT_CWD'], // where npm was called
    env: { ...process.env, DATABASE_URL: present ?? database?.url },
    stdio: 'inherit',
  });
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => command.kill(signal));
  const [code] = (await once(command, 'exit')) as [number | null];
  process.exitCode = code ?? 1;
  await database?.stop();
} catch (error) {
  console.error(inPlainWords(error));
  process.exit(1); // the database ends with this process
}
