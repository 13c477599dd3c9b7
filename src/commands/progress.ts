import { Presets, SingleBar } from 'cli-progress';

const SHOWN_AFTER_MS = 2_000;

interface State {
  stage: 'reading' | 'checking' | 'comparing' | 'writing';
  pets: number;
  /** Of the file, 0 to 1; undefined when its size is not known. */
  share: number | undefined;
}

/** Tells on standard error how far a long import has come: a person by a bar, a log by a line every two seconds. */
export class Progress {
  readonly #state: State = { stage: 'reading', pets: 0, share: undefined };
  readonly #bar = new SingleBar(
    {
      format: process.stderr.isTTY ? ' {bar} {percentage}% | {pets} pets | {stage}' : '{stage}: {pets} pets',
      noTTYOutput: true,
      hideCursor: false,
      clearOnComplete: true,
    },
    Presets.shades_classic,
  );
  readonly #start: NodeJS.Timeout | undefined;

  constructor(quiet: boolean) {
    if (!quiet) this.#start = setTimeout(() => this.#bar.start(1, 0, this.#state), SHOWN_AFTER_MS);
  }

  tell(news: Partial<State>): void {
    Object.assign(this.#state, news);
    this.#bar.update(this.#state.share ?? 0, this.#state);
  }

  stop(): void {
    clearTimeout(this.#start);
    this.#bar.stop();
  }
}
