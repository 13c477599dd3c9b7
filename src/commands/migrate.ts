import type { Command } from 'commander';
import { applyMigrations } from '../migrations/migrations.ts';
import { readSettings } from '../settings.ts';

export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .summary('Brings the database to the newest schema.')
    .description(
      'Applies the migrations that the database lacks, and repairs the history after a restore, a copy or replication. You can repeat it, and run several at once.',
    )
    .action(async () => {
      for (const line of await applyMigrations(readSettings().DATABASE_URL)) console.error(line);
      console.error('the database is up to date');
    });
}
