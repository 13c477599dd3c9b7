const EACH_MS = 200;
const CLEAR_LINE = '\x1b[K';

/**
 * Runs work. On a terminal, a line of standard error says meanwhile how far it is. The cursor stays at the beginning of
 * this line, so that any other text replaces it.
 */
export async function withProgress<T>(text: () => string, work: () => Promise<T>, isWanted = true): Promise<T> {
  const { stderr } = process;
  if (!isWanted || !stderr.isTTY) return work();
  const startedAt = performance.now();
  const seconds = () => Math.floor((performance.now() - startedAt) / 1_000);
  const timer = setInterval(() => stderr.write(`${CLEAR_LINE}${text()}, ${seconds()} s\r`), EACH_MS);
  return work().finally(() => {
    clearInterval(timer);
    stderr.write(CLEAR_LINE);
  });
}
