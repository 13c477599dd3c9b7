import { lastText, readText } from './tls.ts';

/** The parameter of a connection string by which the settings name the file of its password. */
export const PASSWORD_FILE = 'DATABASE_PASSWORD_FILE';

/**
 * @returns a function that reads the file, for each connection again. Editors and secret stores add a mark or a line
 *   break.
 */
export function passwordReader(file: string): () => string {
  return lastText(() => {
    const password = readText(file, 'names a file that cannot be read').replace(/^\uFEFF|[\r\n]+$/g, '');
    if (password === '') throw new Error('names a file that is empty');
    if (/[\r\n\0\uFFFD]/.test(password)) throw new Error('names a file that is not one line of UTF-8');
    return password;
  });
}
