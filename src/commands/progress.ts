import { Presets, SingleBar } from 'cli-progress';
import { note } from './output.js';

const lineEveryMs = 2_000;

/** Tells a person at the terminal, or a log, how far a long piece of work has come. Always on standard error. */
export interface Progress {
  /** @param share 0 to 1, undefined when the whole is not known */
  rows(count: number, share: number | undefined): void;
  /** The next part of the work, in a few words. */
  stage(name: string): void;
  end(): void;
}

export function showProgress(quiet: boolean): Progress {
  if (quiet) return { rows: () => undefined, stage: () => undefined, end: () => undefined };
  return process.stderr.isTTY ? bar() : lines();
}

function bar(): Progress {
  const single = new SingleBar(
    { format: ' {bar} {percentage}% | {count} pets | {stage}', hideCursor: false, clearOnComplete: true },
    Presets.shades_classic,
  );
  single.start(100, 0, { count: 0, stage: 'reading' });
  return {
    rows(count, share) {
      single.update(Math.floor((share ?? 0) * 100), { count: count.toLocaleString('en') });
    },
    stage(name) {
      single.update({ stage: name });
      single.render();
    },
    end() {
      single.stop();
    },
  };
}

function lines(): Progress {
  let nextAt = performance.now() + lineEveryMs;
  return {
    rows(count, share) {
      if (performance.now() < nextAt) return;
      nextAt = performance.now() + lineEveryMs;
      note(`${count} pets read${share === undefined ? '' : `, ${Math.floor(share * 100)}%`}`);
    },
    stage(name) {
      note(name);
    },
    end: () => undefined,
  };
}
