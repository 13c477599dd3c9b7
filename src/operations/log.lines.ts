import { type DestinationStream, pino } from 'pino';

/** Handing over line by line would cost more than making the lines. */
const HANDED_OVER_FROM_CHARACTERS = 16_384;
const HANDED_OVER_AFTER_MS = 100;

/** While standard output is not read the lines wait in memory, up to here. */
const MOST_WAITING_BYTES = 16 * 2 ** 20;

/** Writes lines to standard output beside the event loop, many at a time, and loses none when the process ends. */
export class LogLines implements DestinationStream {
  #gathered = '';
  #timer: NodeJS.Timeout | undefined;
  #dropped = 0;
  readonly #output;

  constructor() {
    // Registered before pino's own listener, which then writes what is left without the event loop.
    process.once('exit', () => {
      this.#handOver();
    });
    this.#output = pino.destination({ dest: 1, sync: false, minLength: 1, maxLength: MOST_WAITING_BYTES });
    this.#output.on('drop', (lines: string) => (this.#dropped += lines.split('\n').length - 1));
  }

  /** Lines that were lost because nobody read them. */
  get dropped(): number {
    return this.#dropped;
  }

  write(line: string): void {
    this.#gathered += line;
    if (this.#gathered.length >= HANDED_OVER_FROM_CHARACTERS) this.#handOver();
    else
      this.#timer ??= setTimeout(() => {
        this.#handOver();
      }, HANDED_OVER_AFTER_MS);
  }

  /** Resolves when all lines so far are written, or cannot be. */
  flush(): Promise<void> {
    this.#handOver();
    return new Promise((resolve) => {
      this.#output.flush(() => {
        resolve();
      });
    });
  }

  #handOver(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#gathered;
    this.#gathered = '';
    if (lines !== '') this.#output.write(lines);
  }
}
