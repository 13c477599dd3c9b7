import { setTimeout as pause } from 'node:timers/promises';

/**
 * Resolves 300 ms after `ms`. It waits in short pauses: after a standstill of the machine, everything else that was due
 * comes first.
 */
export async function laterThan<Value>(ms: number, value: Value): Promise<Value> {
  await pause(ms);
  for (let n = 0; n < 6; n++) await pause(50);
  return value;
}
