import { readdirSync, readFileSync } from 'node:fs';

// USER_HZ, the unit of /proc/<pid>/stat, is 100 on every Linux there is.
const msPerTick = 10;

interface Process {
  parent: number;
  ownTicks: number;
  /** Of children that have ended and were waited for. */
  endedChildrenTicks: number;
}

/** CPU time, user and system, that a process and everything below it have used so far. */
export function cpuMs(root: number): number {
  const processes = readProcesses();
  let ticks = 0;
  for (const pid of tree(processes, root)) {
    const { ownTicks, endedChildrenTicks } = processes.get(pid) ?? { ownTicks: 0, endedChildrenTicks: 0 };
    ticks += ownTicks + endedChildrenTicks;
  }
  return ticks * msPerTick;
}

/** Memory that a process and those below it have resident now (`VmRSS`), or each at its own peak (`VmHWM`). */
export function memoryMb(root: number, figure: 'VmRSS' | 'VmHWM'): number {
  let kb = 0;
  for (const pid of tree(readProcesses(), root)) {
    kb += Number(new RegExp(`${figure}:\\s+(\\d+) kB`).exec(readProc(`${pid}/status`))?.[1] ?? 0);
  }
  return kb / 1024;
}

function readProcesses(): Map<number, Process> {
  const processes = new Map<number, Process>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    // The command's name stands in parentheses and may itself hold spaces and parentheses.
    const fields = readProc(`${name}/stat`).split(') ').at(-1)?.split(' ').map(Number) ?? [];
    const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15);
    processes.set(Number(name), {
      parent: fields[1] ?? 0,
      ownTicks: user + system,
      endedChildrenTicks: childUser + childSystem,
    });
  }
  return processes;
}

function tree(processes: Map<number, Process>, root: number): number[] {
  const found = [root];
  for (const pid of found) {
    for (const [child, { parent }] of processes) if (parent === pid) found.push(child);
  }
  return found;
}

function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return ''; // it has ended meanwhile
  }
}
