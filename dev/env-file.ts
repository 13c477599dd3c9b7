import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { SETTINGS } from '../src/settings.ts';
import { projectFolder } from './build.ts';

/** Blank, a comment, or an assignment that Docker Compose and Node.js read alike. */
const LINE =
  /^[ \t]*(?:#.*|(?:export +)?[A-Za-z_]\w*=(?:(?:'[^']*'|"[^"\\$`]*"|[^\s'"\\$`#]+)(?:[ \t]* #.*)?[ \t]*)?)?$/;
const UNREADABLE = /[^\t\P{Cc}]|[\ufeff\ufffd]/u;

/** Takes settings from `.env`, which Docker Compose reads, too. The environment's own count more. */
export function loadEnvFile(): void {
  const file = join(projectFolder, '.env');
  if (!existsSync(file)) return;
  const compose = readFileSync(join(projectFolder, 'docker-compose.yml'), 'utf8');
  for (const [name, value] of Object.entries(readEnvFile(readFileSync(file)))) {
    const isOther = /^(COMPOSE_|DOCKER_|OTEL_|PGPASSWORD$)/.test(name) || new RegExp(`\\$\\{?${name}\\b`).test(compose);
    if (!isOther && !(name in SETTINGS))
      console.error(`.env: neither the service nor docker-compose.yml knows ${name}`);
    process.env[name] ??= value;
  }
}

/** @throws naming each line that is not understood, without its text, which may be a secret */
export function readEnvFile(bytes: Buffer): Record<string, string> {
  const text = bytes.toString();
  const lines = text.split(/\r?\n/);
  const faults = lines.flatMap((line, index) => (LINE.test(line) && !UNREADABLE.test(line) ? [] : [index + 1]));
  // Node.js takes an indented comment for a name, and `export` for a part of one if the value is empty.
  const assignments = lines.map((line) => line.replace(/^[ \t]*(?:#.*|export +)?/, ''));
  if (faults.length === 0) return parseEnv(assignments.join('\n')) as Record<string, string>;
  const rule = 'in UTF-8 without a byte order mark, with blanks and other special characters in single quotes';
  throw new Error(`.env, line ${faults.join(', ')}: write NAME=value, ${rule}`);
}
