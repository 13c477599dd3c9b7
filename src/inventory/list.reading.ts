import { type Hash, createHash } from 'node:crypto';
import type { Connection } from 'pg';
import { StatementRun } from '../database/statement-run.js';
import { StockList } from './stock-list.js';

/** The snapshot comes first, so what was committed between the two is in the items and never missed. */
const STATEMENTS = [
  { sql: 'SELECT pg_current_snapshot()::text', args: [] },
  { sql: 'SELECT pet_id, quantity, status FROM inventory_item ORDER BY pet_id', args: [] },
];
const ITEM_COLUMNS = 3;

/** PostgreSQL's frontend/backend protocol: a message is its type, its length without the type, and its content. */
const DATA_ROW = 'D'.charCodeAt(0);
const HEAD_BYTES = 5;

const BEFORE_COLUMNS = ['{"petId":', ',"quantity":', ',"status":"'].map((text) => [...Buffer.from(text)]);
const [COMMA = 0, QUOTE = 0, BRACE = 0, OPEN = 0, CLOSE = 0] = Buffer.from(',"}[]');

/** An item is longer as JSON than as a row, and never twice as long. */
const GROWTH = 2;

type Receive = (chunk: Buffer) => void;

/**
 * Reads the whole stock. While the rows arrive they are written as the bytes of the answer: digit by digit, so that
 * int64 stays exact, and without an object for any of them, while PostgreSQL is at the next. All messages but these rows
 * go to the driver as they come.
 */
export class ListReading extends StatementRun {
  #bytes: Buffer;
  #length = 0;
  readonly #hash: Hash = createHash('sha256');
  /** The beginning of a message that has not arrived whole. */
  #rest: Buffer | undefined;
  #giveBack: () => void = () => undefined;
  #isOver = false;

  /** @param expectedBytes the length of the list, as far as it can be foreseen */
  constructor(expectedBytes: number) {
    super(STATEMENTS);
    this.#bytes = Buffer.allocUnsafeSlow(expectedBytes + HEAD_BYTES);
    this.#bytes[this.#length++] = OPEN;
    this.#hash.update('[');
  }

  /** What had been committed for sure when the items were read. */
  get snapshot(): string {
    return this.rows[0]?.[0] ?? '';
  }

  list(): StockList {
    this.#bytes[this.#length++] = CLOSE;
    this.#hash.update(']');
    return new StockList(this.#bytes.subarray(0, this.#length), this.#hash.digest('base64url'));
  }

  override submit(connection: Connection): Error | null {
    const { stream } = connection;
    const [driver] = stream.listeners('data') as Receive[];
    if (driver === undefined) return new Error('the driver does not listen to its connection');
    const receive: Receive = (chunk) => {
      try {
        this.#receive(chunk, driver);
      } catch (error) {
        stream.destroy(error as Error); // out of memory, say: this reading fails, not the process
      }
    };
    stream.removeListener('data', driver).on('data', receive);
    this.#giveBack = () => {
      this.#isOver = true;
      stream.removeListener('data', receive).on('data', driver);
    };
    return super.submit(connection);
  }

  override handleReadyForQuery(): void {
    this.#giveBack();
    super.handleReadyForQuery();
  }

  override handleError(error: Error): void {
    this.#giveBack();
    super.handleError(error);
  }

  #receive(arrived: Buffer, driver: Receive): void {
    const chunk = this.#rest ? Buffer.concat([this.#rest, arrived]) : arrived;
    this.#makeRoom(GROWTH * chunk.length);
    const lengthBefore = this.#length;
    let forDriver = 0;
    let at = 0;
    for (let next; at + HEAD_BYTES < chunk.length && (next = at + 1 + chunk.readUInt32BE(at + 1)) <= chunk.length;) {
      if (chunk[at] === DATA_ROW && chunk[at + HEAD_BYTES + 1] === ITEM_COLUMNS) {
        if (forDriver < at) driver(chunk.subarray(forDriver, at));
        this.#writeItem(chunk, at + HEAD_BYTES + 2);
        forDriver = next;
      }
      at = next;
    }
    this.#hash.update(this.#bytes.subarray(lengthBefore, this.#length));
    this.#rest = at < chunk.length ? chunk.subarray(at) : undefined;
    if (forDriver < at) driver(chunk.subarray(forDriver, at));
    if (this.#isOver && this.#rest) driver(this.#rest);
  }

  /** @param at of the first column; each is its length in four bytes, and its text */
  #writeItem(row: Buffer, at: number): void {
    const bytes = this.#bytes;
    let to = this.#length;
    if (to > 1) bytes[to++] = COMMA;
    for (const before of BEFORE_COLUMNS) {
      for (const byte of before) bytes[to++] = byte;
      const end = at + 4 + row.readUInt32BE(at);
      for (at += 4; at < end; at++) bytes[to++] = row[at] ?? 0;
    }
    bytes[to++] = QUOTE;
    bytes[to++] = BRACE;
    this.#length = to;
  }

  #makeRoom(more: number): void {
    const needed = this.#length + more + 1;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, Math.ceil(1.5 * this.#bytes.length)));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
