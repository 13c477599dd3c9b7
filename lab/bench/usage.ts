import { readdirSync, readFileSync } from 'node:fs';

// USER_HZ, the unit of /proc/<pid>/stat, is 100 on every Linux there is.
const msPerTick = 10;

/** CPU time, user and system, that a process and its children, ended ones included, have used so far. */
export function cpuMs(root: number): number {
  const ticks = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => {
      // The command's name stands in parentheses and may itself hold spaces and parentheses.
      const fields = readProc(`${name}/stat`).split(') ').at(-1)?.split(' ').map(Number) ?? [];
      const [user = 0, system = 0, childrenUser = 0, childrenSystem = 0] = fields.slice(11, 15);
      return Number(name) === root || fields[1] === root ? user + system + childrenUser + childrenSystem : 0;
    });
  return ticks.reduce((sum, each) => sum + each) * msPerTick;
}

function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return ''; // it has ended meanwhile
  }
}
