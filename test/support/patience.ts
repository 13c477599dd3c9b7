/**
 * How long a test waits for what is bound to come. A busy machine can be forty times slower than a quiet one: a test
 * that reaches this bound has found a promise that is broken, and says what did not come.
 */
export const PATIENCE_MS = 50_000;
