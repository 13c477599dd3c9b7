import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIBPQ_VARIABLES } from '../src/address/database-url.ts';
import { isNear } from '../src/setting-names.ts';
import { SETTINGS } from '../src/settings.ts';
import { projectFolder } from './build.ts';

/** What Compose itself, Node.js, npm, OpenTelemetry (docs/operations.md) and PostgreSQL's driver know. */
const OTHERS =
  /^((COMPOSE|DOCKER|BUILDKIT|BUILDX|NODE|NPM_CONFIG|OTEL|UV|SSL_CERT)_\w+|(NO|FORCE)_COLOR|PG(USER|PASSWORD|PASSFILE|DATABASE|OPTIONS|APPNAME)|(HTTPS?|ALL|NO)_PROXY|TZ|POSTGRES_VERSION)$/i;

interface Line {
  readonly line: number;
  readonly name: string;
  readonly value: string;
}

/**
 * Takes settings from `.env`, which Docker Compose reads, too. The environment's own count more. Warns of a name that nothing
 * knows.
 *
 * @throws in one line for each that is not understood
 */
export function loadEnvFile(): void {
  const file = join(projectFolder, '.env');
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) {
    if (existsSync(`${file}.txt`)) console.error('.env.txt is not read. Rename it to .env');
    return;
  }
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw new Error(`.env cannot be read: ${(error as Error).message}. Make it a file that this user can read`);
  }
  const composeFiles = readdirSync(projectFolder).filter((name) => /compose.*\.ya?ml$/.test(name));
  const texts = composeFiles.map((name) => readFileSync(join(projectFolder, name), 'utf8'));
  const set = new Map<string, Line>();
  for (const line of parseEnvFile(bytes)) {
    const { name, value } = line;
    const former = set.get(name);
    const told = `.env, line ${line.line}: ${name}`;
    if (former && former.value !== value) console.error(`${told} replaces the one of line ${former.line}`);
    set.set(name, line);
    const unknown = unknownName(name, texts);
    if (unknown === undefined) continue;
    console.error(`${told} ${unknown.text}`);
    if (unknown.intended) set.delete(name);
  }
  for (const { name, value } of set.values()) process.env[name] ??= value;
}

/**
 * What to say of a name that nothing knows, and the name that was probably intended.
 *
 * @param composeFiles docker-compose.yml and what the user has put beside it
 */
export function unknownName(
  name: string,
  composeFiles: readonly string[],
): { text: string; intended?: string } | undefined {
  const used = /(?<!\$)\$\{?([A-Za-z_]\w*)|^[ -]+([A-Z_][A-Z0-9_]*):?$/gm; // in a value, or as a variable without a value
  const ofCompose = composeFiles.flatMap((text) =>
    Array.from(text.matchAll(used), ([, one, other = '']) => one ?? other),
  );
  const names = [...Object.keys(SETTINGS), ...ofCompose, ...LIBPQ_VARIABLES];
  if (names.includes(name) || OTHERS.test(name)) return undefined;
  const intended = names.find((known) => isNear(name, known));
  return intended === undefined
    ? { text: 'is not known to the service or to docker-compose.yml' }
    : { text: `is not known; ${intended} is`, intended };
}

/** @throws in one line for each that is not understood, without its text, which may be a secret */
export function parseEnvFile(bytes: Buffer): Line[] {
  const faults: string[] = [];
  const lines = textLines(bytes).flatMap((text, index) => {
    const line = index + 1;
    try {
      if (text === undefined)
        throw new Error('has a character that is neither UTF-8 nor UTF-16. Save the file as UTF-8');
      if (/^\s*(#|$)/.test(text)) return [];
      return [{ line, ...assignment(text) }];
    } catch (error) {
      faults.push(`.env, line ${line}: ${(error as Error).message}`);
      return [];
    }
  });
  if (faults.length > 0) throw new Error(faults.join('\n'));
  return lines;
}

/** Without line ends and byte order marks. A line that cannot be decoded is undefined. */
function textLines(bytes: Buffer): (string | undefined)[] {
  const encoding = utf16(bytes);
  // Each byte of UTF-8 is one character here, so that a wrong one is found in its own line.
  const text = encoding ? new TextDecoder(encoding).decode(bytes) : bytes.toString('latin1');
  return text.split(/\r\n|\r|\n/).map((line) => {
    if (line.includes('\0') || line.includes('\ufffd')) return undefined;
    if (encoding) return line;
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(line, 'latin1'));
    } catch {
      return undefined;
    }
  });
}

/** PowerShell writes it, without a mark where it appends. Its ASCII has a NUL in every second byte. */
function utf16(bytes: Buffer): 'utf-16le' | 'utf-16be' | undefined {
  const [first, second] = bytes;
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  const nuls = [0, 0];
  bytes.forEach((byte, at) => {
    if (byte === 0) nuls[at % 2] = (nuls[at % 2] ?? 0) + 1;
  });
  const [even = 0, odd = 0] = nuls;
  if (Math.max(even, odd) <= bytes.length / 4) return undefined;
  return odd > even ? 'utf-16le' : 'utf-16be';
}

/** `NAME=value` as an editor, sh, cmd and PowerShell write it. */
const ASSIGNMENT = /^\s*(export\s+|declare\s+-x\s+|set\s+|\$env:)?([A-Za-z_][\w.-]*)\s*=(\s*)(.*?)\s*$/i;
const QUOTED = /^(?:'([^']*)'|"([^"]*)")\s*;?\s*(?:#.*)?$/;

function assignment(text: string): { name: string; value: string } {
  const [, command, name = '', blank = '', right = ''] = ASSIGNMENT.exec(text) ?? [];
  if (name === '') throw new Error('is not NAME=value');
  if (/^["']/.test(right)) {
    if (/^"[^"]*\\/.test(right)) throw new Error('has a backslash in double quotes. Put the value in single quotes');
    const [whole, single, double = ''] = QUOTED.exec(right) ?? [];
    if (whole === undefined) throw new Error('needs one closing quote, with nothing but a comment after it');
    if (single !== undefined) return { name, value: single };
    return { name, value: literal(double) };
  }
  if (/^[\u2018-\u201f\u00ab\u00bb]/.test(right)) throw new Error(`has quotes of a word processor. Use ' instead`);
  const bare = `${blank}${right}`.replace(/\s+#.*$/, '').trim();
  if (/\s[A-Z][A-Z0-9_]*=/.test(bare))
    throw new Error('has a second assignment. Write it on a line of its own, or put the value in single quotes');
  if (/;\s*export\s/.test(bare))
    throw new Error('has a command after the value. Remove it, or put the value in single quotes');
  return { name, value: literal(command ? bare.replace(/\s*;$/, '') : bare) };
}

/** Shells and Compose would put something else there. */
function literal(value: string): string {
  if (/\$[\w({'"]|`/.test(value)) throw new Error('has $ or `, which is not replaced. Put the value in single quotes');
  return value;
}
