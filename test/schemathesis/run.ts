import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildIfStale, projectFolder } from '../../dev/build.ts';
import { startPostgres } from '../../dev/embedded-postgres.ts';
import { ServiceProcess } from '../support/service-process.ts';

/*
 * Runs Schemathesis with all its checks against the built service on a throwaway database. Arguments go to Schemathesis;
 * `--optional` makes a machine without Python or its package index no failure.
 */

const VERSION = '4.32.5';
const MAX_RESPONSE_SECONDS = '1';
const isOptional = process.argv.includes('--optional');
const wanted = process.argv.slice(2).filter((argument) => argument !== '--optional');

const folder = mkdtempSync(join(tmpdir(), 'inventory-schemathesis-'));
try {
  if (install()) process.exitCode = await check();
  else console.log('Schemathesis is not run: python3 with venv and pip cannot install it here.');
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function install(): boolean {
  const options = ['--quiet', '--disable-pip-version-check', `schemathesis==${VERSION}`];
  const isHere = run('python3', ['-m', 'venv', 'venv']) && run('venv/bin/python', ['-m', 'pip', 'install', ...options]);
  if (!isHere && !isOptional) process.exitCode = 1;
  return isHere;
}

async function check(): Promise<number> {
  buildIfStale();
  const postgres = await startPostgres(join(folder, 'data'), { fsync: false, throwaway: true });
  const key = randomBytes(32).toString('hex');
  const settings = { DATABASE_URL: postgres.url, BOOTSTRAP_API_KEY: key };
  for (const command of [['migrate'], ['import', join(projectFolder, 'prisma/demo-stock.csv')]]) {
    const isDone = run(process.execPath, [join(projectFolder, 'dist/cli.js'), ...command], settings);
    if (!isDone) throw new Error(`inventory ${command.join(' ')} failed`);
  }
  const service = await ServiceProcess.running(settings);
  try {
    const args = ['--config-file', join(projectFolder, 'schemathesis.toml')];
    args.push('run', `${service.url}/openapi.json`, '--url', `${service.url}/v1`, '--checks', 'all');
    args.push('--header', `Authorization: Bearer ${key}`, '--max-response-time', MAX_RESPONSE_SECONDS, ...wanted);
    const child = spawn(join(folder, 'venv/bin/schemathesis'), args, { cwd: folder, stdio: 'inherit' });
    await once(child, 'exit');
    return child.exitCode ?? 1;
  } finally {
    await service.kill();
    await postgres.stop();
  }
}

function run(program: string, args: readonly string[], env = process.env): boolean {
  return spawnSync(program, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}
