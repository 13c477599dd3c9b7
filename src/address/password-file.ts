import { lastText, readText } from './tls.ts';

/** The parameter by which `readSettings` passes on DATABASE_PASSWORD_FILE. */
export const PASSWORD_FILE = 'DATABASE_PASSWORD_FILE';

/** @returns a function that reads the file, for each connection again. Most editors and secret stores add a line break. */
export function passwordReader(file: string): () => string {
  const failure = 'names a file that cannot be read';
  const read = () => readText(file, failure).replace(/\r?\n$/, '');
  if (read() === '') throw new Error('names a file that is empty');
  return lastText(read);
}
