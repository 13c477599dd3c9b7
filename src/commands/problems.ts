import { Failure } from './failure.js';

const SHOWN = 20;

/** What is wrong with a file: the first problems by line and the count of all, in bounded memory. */
export class Problems {
  readonly #first: { line: number; text: string }[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** @param line counted from 1 in the unpacked file */
  add(line: number, text: string): void {
    this.#count++;
    if (this.#first.length === SHOWN && (this.#first.at(-1)?.line ?? 0) <= line) return;
    const at = this.#first.findIndex((each) => each.line > line);
    this.#first.splice(at === -1 ? this.#first.length : at, 0, { line, text });
    this.#first.length = Math.min(this.#first.length, SHOWN);
  }

  /** Counts problems that are not worth telling one by one. */
  addUntold(count: number): void {
    this.#count += count;
  }

  asFailure(): Failure {
    const told = this.#first.map(({ line, text }) => `line ${line}: ${text}`);
    const rest = this.#count - told.length;
    const more = rest > 0 ? [`… and ${rest} more`] : [];
    const sum = `${this.#count} ${this.#count === 1 ? 'problem' : 'problems'} in the file; nothing was written`;
    return new Failure([...told, ...more, sum].join('\n'));
  }
}

/** A name or value from the file, made harmless for terminals and short. JSON that is text already stays as it is. */
export function quote(text: string): string {
  const short = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  return withoutControls(short.startsWith('"') ? short : JSON.stringify(short));
}

/** Control and format characters, which could steer a terminal, replaced. */
export function withoutControls(text: string): string {
  return text.replace(/\p{C}/gu, '\ufffd');
}
