/** Runs work. When a signal ends the process meanwhile, `tell` says what has become of the work. */
export async function whileInterruptible<T>(tell: () => void, work: () => Promise<T>): Promise<T> {
  const listener = (code: number) => {
    if (code >= 128) tell(); // as cli.ts ends by a signal
  };
  process.once('exit', listener);
  try {
    return await work();
  } finally {
    process.off('exit', listener);
  }
}
