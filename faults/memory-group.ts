import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeftOut } from './stage.ts';

/** Where the kernel has its control groups of memory, and what it calls things there. */
const VERSION_2 = { root: '/sys/fs/cgroup', limit: 'memory.max', swap: 'memory.swap.max', peak: 'memory.peak' };
const VERSION_1 = {
  root: '/sys/fs/cgroup/memory',
  limit: 'memory.limit_in_bytes',
  swap: 'memory.memsw.limit_in_bytes',
  peak: 'memory.max_usage_in_bytes',
};

/** The limit on memory that a container has, without the container. */
export class MemoryGroup {
  private readonly files = existsSync(VERSION_1.root) ? VERSION_1 : VERSION_2;
  private readonly folder = join(this.files.root, `inventory-${randomUUID()}`);

  /** @throws {LeftOut} when this account may not make one */
  constructor(limitMb: number) {
    const { root, limit, swap } = this.files;
    const isVersion2 = this.files === VERSION_2;
    try {
      if (isVersion2) writeFileSync(join(root, 'cgroup.subtree_control'), '+memory');
      mkdirSync(this.folder);
    } catch (error) {
      throw new LeftOut(`this account may not limit memory (${(error as Error).message})`);
    }
    writeFileSync(join(this.folder, limit), String(limitMb * 2 ** 20));
    const noSwap = isVersion2 ? 0 : limitMb * 2 ** 20; // version 1 counts both together
    if (existsSync(join(this.folder, swap))) writeFileSync(join(this.folder, swap), String(noSwap));
  }

  /** Put before a command, makes it run in the group. */
  get launcher(): string[] {
    return ['/bin/sh', '-c', 'echo $$ >"$0" && exec "$@"', join(this.folder, 'cgroup.procs')];
  }

  /** The most that was in use at a time. Version 2 counts what sockets hold, too. */
  get peakMb(): number {
    return Number(readFileSync(join(this.folder, this.files.peak), 'utf8')) / 2 ** 20;
  }

  /** Of `using`; its processes have to have ended. */
  [Symbol.dispose](): void {
    rmdirSync(this.folder);
  }
}
