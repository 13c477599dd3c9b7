import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { FaultyPostgres } from '../test/support/postgres-server.ts';
import { LeftOut } from './stage.ts';

const SIZE_MB = 160;

/** A part of PostgreSQL's data on a file system of its own, in memory, which can be filled to its last byte. */
export class SmallDisk {
  private readonly folder: string;
  private readonly unmount = () => {
    spawnSync('umount', ['--lazy', this.folder]);
  };

  /** Moves a part of a server that is stopped. @throws {LeftOut} when this account may not mount a file system */
  constructor({ dataFolder }: FaultyPostgres, part: 'base' | 'pg_wal') {
    this.folder = join(dataFolder, part);
    const before = `${this.folder}.before`;
    renameSync(this.folder, before);
    mkdirSync(this.folder, { mode: 0o700 });
    const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MB}m`, 'tmpfs', this.folder]);
    if (status !== 0) throw new LeftOut(`this account may not mount a file system: ${String(stderr).trim()}`);
    process.on('exit', this.unmount);
    execFileSync('cp', ['--archive', `${before}/.`, this.folder]);
  }

  fill(): void {
    const filler = openSync(join(this.folder, 'filler'), 'w');
    for (const size of [2 ** 20, 2 ** 12]) {
      try {
        for (;;) writeSync(filler, Buffer.alloc(size));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    }
    closeSync(filler);
  }

  empty(): void {
    rmSync(join(this.folder, 'filler'), { force: true });
  }

  /** Of `using`; also while PostgreSQL has files of it open, which it then must not go on with. */
  [Symbol.dispose](): void {
    process.off('exit', this.unmount);
    this.unmount();
  }
}
