import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

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
  private readonly folder: string;
  private readonly files: typeof VERSION_1;

  /** @returns why this account may not make one, or undefined */
  static obstacle(): string | undefined {
    try {
      new MemoryGroup(64)[Symbol.dispose]();
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }

  constructor(limitMb: number) {
    this.files = existsSync(VERSION_1.root) ? VERSION_1 : VERSION_2;
    const { root, limit, swap } = this.files;
    this.folder = join(root, `inventory-${randomUUID()}`);
    if (this.files === VERSION_2) writeFileSync(join(root, 'cgroup.subtree_control'), '+memory');
    mkdirSync(this.folder);
    writeFileSync(join(this.folder, limit), String(limitMb * 2 ** 20));
    const noSwap = this.files === VERSION_2 ? 0 : limitMb * 2 ** 20; // version 1 counts both together
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
