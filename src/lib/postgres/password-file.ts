import { lastText, readText } from './tls.ts';

/** Added to a connection string by {@link withPasswordFile} alone: `postgresUrl` refuses it. */
export const PASSWORD_FILE = 'password_file';

/**
 * @returns the connection string, by which each new connection reads its password from the file
 * @throws in words that follow the name of the file's setting
 */
export function withPasswordFile(databaseUrl: string, file: string): string {
  const url = new URL(databaseUrl);
  if (url.password || url.searchParams.has('password'))
    throw new Error('must not be set where DATABASE_URL has a password');
  passwordReader(file); // throws when there is none
  url.searchParams.set(PASSWORD_FILE, file);
  return url.href;
}

/** Reads the file for each connection, without the mark or line break that editors and secret stores add. */
export function passwordReader(file: string): () => string {
  return lastText(() => {
    const password = readText(file, 'names a file that cannot be read').replace(/^\uFEFF|[\r\n]+$/g, '');
    if (password === '') throw new Error('names a file that is empty');
    if (/[\r\n\0\uFFFD]/.test(password)) throw new Error('names a file that is not one line of UTF-8');
    return password;
  });
}
