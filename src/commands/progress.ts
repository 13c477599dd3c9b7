const SHOWN_EVERY_MS = 2_000;

/** Tells on standard error how far an import has come: a terminal in one line, a log by a line every two seconds. */
export function showProgress(quiet: boolean) {
  const startedAt = performance.now();
  const progress = { stage: 'reading', pets: 0, share: 0, stop };
  const [start, end] = process.stderr.isTTY ? ['\r', '\x1b[K'] : ['', '\n'];
  const timer = quiet ? undefined : setInterval(show, SHOWN_EVERY_MS);
  function show(): void {
    const { stage, pets, share } = progress;
    const read = stage === 'reading' && share > 0 ? ` (${Math.floor(100 * share)} %)` : '';
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    process.stderr.write(`${start}${stage}: ${pets} pets${read}, ${seconds} s${end}`);
  }
  function stop(): void {
    clearInterval(timer);
    if (process.stderr.isTTY) process.stderr.write(start + end);
  }
  return progress;
}
