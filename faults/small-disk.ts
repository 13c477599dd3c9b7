import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, renameSync, rmdirSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FaultyPostgres } from '../test/support/postgres-server.ts';

const SIZE_MB = 160;

/** A part of PostgreSQL's data on a file system of its own, in memory, which can be filled to its last byte. */
export class SmallDisk {
  private readonly folder: string;
  private readonly unmount = () => {
    spawnSync('umount', ['--lazy', this.folder]);
  };

  private constructor(folder: string) {
    this.folder = folder;
    process.on('exit', this.unmount);
  }

  /** @returns why this account may not mount one, or undefined */
  static obstacle(): string | undefined {
    const folder = mkdtempSync(join(tmpdir(), 'inventory-disk-'));
    try {
      const fault = mount(folder, 1);
      if (fault === undefined) spawnSync('umount', [folder]);
      return fault;
    } finally {
      rmdirSync(folder);
    }
  }

  /** Moves the part, between a stop and a restart. */
  static async under(postgres: FaultyPostgres, part: 'base' | 'pg_wal'): Promise<SmallDisk> {
    const folder = join(postgres.dataFolder, part);
    await postgres.stop();
    renameSync(folder, `${folder}.before`);
    mkdirSync(folder, { mode: 0o700 });
    const fault = mount(folder, SIZE_MB);
    if (fault !== undefined) throw new Error(fault);
    const disk = new SmallDisk(folder);
    try {
      execFileSync('cp', ['--archive', `${folder}.before/.`, folder]);
      await postgres.restart();
      return disk;
    } catch (error) {
      disk[Symbol.dispose]();
      throw error;
    }
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

/** @returns why it did not succeed, or undefined */
function mount(folder: string, sizeMb: number): string | undefined {
  const { status, stderr, error } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeMb}m`, 'tmpfs', folder]);
  return status === 0 ? undefined : (error?.message ?? stderr.toString().trim());
}
