import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'vitest';
import { STATE } from '../../src/inventory/item.ts';
import { startInventory } from './inventory-command.ts';

/** The command gives up waiting for an answer after 35 s. */
export const STALLED_MS = 45_000;

const BEFORE_AND_AFTER = STATE.map(
  ({ name, column }) => `${column}_before AS "${name}Before", ${column}_after AS "${name}After"`,
);

/** Reads the history as `--json` prints it. */
export const HISTORY_AS_JSON = `
  SELECT row_to_json(change)::text AS line
    FROM (SELECT pet_id AS "petId", id, ${BEFORE_AND_AFTER.join()},
                 to_char(changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "changedAt",
                 changed_by AS "changedBy", request_id AS "requestId", idempotency_key AS "idempotencyKey",
                 reason
            FROM stock_change ORDER BY id) AS change`;

/** An `inventory history --follow --json` process. */
export class Follower {
  readonly child: ChildProcess;
  errors = '';
  private text = '';

  constructor(url: string, ...options: string[]) {
    const child = startInventory(url, ['history', '--follow', '--json', ...options]);
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (this.text += chunk));
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (this.errors += chunk));
    this.child = child;
  }

  /** The complete lines so far. */
  get lines(): string[] {
    return this.text.split('\n').slice(0, -1);
  }

  /** Waits until so many lines are printed; on a busy machine the process takes seconds to start. */
  prints(count: number) {
    return expect.poll(() => this.lines, { timeout: STALLED_MS }).toHaveLength(count);
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    if (this.child.exitCode === null) {
      this.child.kill(signal);
      await once(this.child, 'close');
    }
    return this.child.exitCode;
  }
}

export function changeOf(line: string) {
  return JSON.parse(line) as { readonly id: number; readonly petId: number; readonly quantityAfter: number };
}
