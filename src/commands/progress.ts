import { Presets, SingleBar } from 'cli-progress';

const SHOWN_AFTER_MS = 2_000;

/** Tells on standard error how far a long import has come: a person by a bar, a log by a line every two seconds. */
export function showProgress(quiet: boolean) {
  const state = { stage: 'reading', pets: 0, share: 0 };
  const bar = new SingleBar(
    {
      format: process.stderr.isTTY ? ' {bar} {percentage}% | {pets} pets | {stage}' : '{stage}: {pets} pets',
      noTTYOutput: true,
      clearOnComplete: true,
    },
    Presets.shades_classic,
  );
  const start = quiet ? undefined : setTimeout(() => bar.start(1, state.share, state), SHOWN_AFTER_MS);
  return {
    /** @param news the share is 0 to 1 of the file */
    tell(news: Partial<typeof state>): void {
      Object.assign(state, news);
      bar.update(state.share, state);
    },
    stop(): void {
      clearTimeout(start);
      bar.stop();
    },
  };
}
