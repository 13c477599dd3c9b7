import { clearLine, cursorTo } from 'node:readline';

/** One line on the terminal: where the benchmark is and how long it will still take. */
export class Progress {
  readonly #expectedSeconds: readonly number[];
  readonly #startedMs = performance.now();
  #started = 0;

  constructor(expectedSeconds: readonly number[]) {
    this.#expectedSeconds = expectedSeconds;
  }

  next(what: string): void {
    const sum = (seconds: readonly number[]) => seconds.reduce((total, each) => total + each, 0);
    const behind = sum(this.#expectedSeconds.slice(0, this.#started));
    const ahead = sum(this.#expectedSeconds.slice(this.#started));
    const elapsed = (performance.now() - this.#startedMs) / 1000;
    const pace = behind > 20 ? elapsed / behind : 1;
    this.#started++;
    this.#write(`[${this.#started}/${this.#expectedSeconds.length}] ${what} · ${duration(ahead * pace)} left`);
  }

  end(): void {
    if (process.stdout.isTTY) this.#write('');
  }

  #write(line: string): void {
    if (process.stdout.isTTY) {
      clearLine(process.stdout, 0);
      cursorTo(process.stdout, 0);
      process.stdout.write(line.slice(0, process.stdout.columns - 1));
    } else {
      console.log(line);
    }
  }
}

function duration(seconds: number): string {
  return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}
