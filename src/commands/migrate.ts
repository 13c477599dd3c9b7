import type { Command } from 'commander';
import { applyMigrations } from '../migrations/migrations.js';
import { readSettings } from '../settings.js';

export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .summary('Brings the database to the newest schema.')
    .description('Applies the migrations that the database lacks. You can repeat it, and run several at once.')
    .action(async () => {
      const applied = await applyMigrations(readSettings().DATABASE_URL);
      for (const name of applied) console.error(`applied ${name}`);
      console.error(applied.length === 0 ? 'the database is up to date' : `${applied.length} migrations applied`);
    });
}
