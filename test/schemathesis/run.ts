import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildIfStale, projectFolder } from '../../dev/build.ts';
import { startPostgres } from '../../dev/embedded-postgres.ts';
import { ServiceProcess } from '../support/service-process.ts';

/**
 * Runs Schemathesis with all its checks against the built service on a throwaway database. Arguments go to Schemathesis;
 * `--optional` first makes a machine without Python or its package index no failure.
 */
const VERSION = '4.32.5';
const MAX_RESPONSE_SECONDS = '1';

const [first, ...rest] = process.argv.slice(2);
const optional = first === '--optional';
const wanted = first === undefined || optional ? rest : [first, ...rest];

const folder = mkdtempSync(join(tmpdir(), 'inventory-schemathesis-'));
try {
  const program = install();
  if (program) process.exitCode = await check(program);
  else if (!optional) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** @returns the program's path, or undefined where it cannot be had */
function install(): string | undefined {
  const present = process.env['SCHEMATHESIS'];
  if (present) return present;
  const bin = join(folder, 'venv/bin');
  const steps = [
    ['python3', '-m', 'venv', join(folder, 'venv')],
    [join(bin, 'python'), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', `schemathesis==${VERSION}`],
  ];
  for (const [program = '', ...args] of steps) {
    const { status } = spawnSync(program, args, { stdio: ['ignore', 'ignore', optional ? 'ignore' : 'inherit'] });
    if (status === 0) continue;
    console.log('Schemathesis is not run: python3 with venv and pip cannot install it here.');
    return undefined;
  }
  return join(bin, 'schemathesis');
}

async function check(program: string): Promise<number> {
  buildIfStale();
  const postgres = await startPostgres(join(folder, 'data'), { fsync: false, throwaway: true });
  const key = randomBytes(32).toString('hex');
  const settings = { DATABASE_URL: postgres.url, BOOTSTRAP_API_KEY: key };
  for (const command of [['migrate'], ['import', 'prisma/demo-stock.csv']]) {
    const args = [join(projectFolder, 'dist/cli.js'), ...command];
    const { status, stderr } = spawnSync(process.execPath, args, {
      cwd: projectFolder,
      env: settings,
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(stderr);
  }
  const service = await ServiceProcess.running(settings);
  try {
    return await schemathesis(program, service.url, key);
  } finally {
    await service.kill();
    await postgres.stop();
  }
}

async function schemathesis(program: string, address: string, key: string): Promise<number> {
  const args = ['--config-file', join(projectFolder, 'schemathesis.toml')];
  args.push('run', `${address}/openapi.json`, '--url', `${address}/v1`, '--checks', 'all');
  args.push('--header', `Authorization: Bearer ${key}`, '--max-response-time', MAX_RESPONSE_SECONDS, ...wanted);
  const child = spawn(program, args, { cwd: folder, stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}
