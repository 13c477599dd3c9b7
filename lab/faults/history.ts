import { appendFileSync } from 'node:fs';
import { ConnectionLost } from '../../test/support/http-client.ts';
import { listAfter, resultOf } from './answer-rules.ts';
import type { Exchange } from './exchange.ts';
import type { FinalState } from './final-state.ts';

/**
 * Adds what clients saw of one store to a file, as lines of JSON: the name and the first stock, then each operation.
 * `judge/main.go` reads it.
 */
export class History {
  operations = 0;
  /** Updates of unknown outcome: they may take place until the end. */
  open = 0;
  private readonly file: string;
  private readonly processes = new Map<number, number>();
  private processesBegun = 0;

  /** @param initial each pet's quantity before the first operation, in ascending order of pets */
  constructor(file: string, name: string, initial: ReadonlyMap<number, number>) {
    this.file = file;
    this.write({ history: name, stock: itemsOf(initial) });
  }

  /** Leaves out a list that the client did not get: it proves nothing. */
  add({ client, operation, outcome, start, end }: Exchange): void {
    if (operation.kind === 'list') {
      const body = listAfter(operation, outcome);
      if (body !== undefined) this.note(client, start, end, { operation: 'list', items: JSON.parse(body) as unknown });
      return;
    }
    const { petId, quantity, expected, key } = operation;
    const ifMatch = expected === undefined ? undefined : `available-${expected}`;
    const update = { operation: 'update', petId, quantity, ifMatch, key };
    const result = resultOf(outcome);
    if (result === 'unknown' || outcome instanceof ConnectionLost) {
      this.open++;
      this.note(client, start, undefined, { ...update, outcome: 'unknown' });
      this.processes.delete(client); // a process has one operation at a time, and this one does not end
    } else if (outcome.status === 412) {
      const tag = outcome.headers['etag']?.replaceAll('"', '');
      this.note(client, start, end, { ...update, outcome: 'precondition_failed', tag });
    } else {
      const isReplay = 'idempotent-replayed' in outcome.headers;
      this.note(client, start, end, { ...update, outcome: isReplay ? 'replayed' : result });
    }
  }

  /** The store itself, read without a service, is the last list. */
  conclude({ readStart, readEnd, quantities }: FinalState): void {
    const inOrder = [...quantities].sort(([one], [other]) => one - other);
    this.note(-1, readStart, readEnd, { operation: 'list', items: itemsOf(new Map(inOrder)) });
  }

  /** Rounds times outwards, to microseconds. */
  private note(client: number, start: number, end: number | undefined, operation: object): void {
    const process = this.processes.get(client) ?? this.processesBegun++;
    this.processes.set(client, process);
    const times = { call: Math.floor(start * 1_000), return: end === undefined ? null : Math.ceil(end * 1_000) };
    this.operations++;
    this.write({ process, ...times, ...operation });
  }

  private write(line: object): void {
    appendFileSync(this.file, `${JSON.stringify(line)}\n`);
  }
}

function itemsOf(quantities: ReadonlyMap<number, number>) {
  return [...quantities].map(([petId, quantity]) => ({ petId, quantity, status: 'available' }));
}
