import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, vi } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const run = promisify(execFile);

/** `docker compose`, or docker-compose on a machine without the plugin. */
export const composeCommand = hasComposePlugin() ? ['docker', 'compose'] : ['docker-compose'];
const [compose = 'docker', ...plugin] = composeCommand;

function hasComposePlugin(): boolean {
  try {
    execFileSync('docker', ['compose', 'version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** A compose project with its own name, secrets and host ports. */
export class ComposeProject {
  /** A bootstrap key that exists in this project alone. */
  readonly apiKey = randomBytes(32).toString('hex');
  readonly name = `inventory-trial-${randomBytes(4).toString('hex')}`;
  /** Contains characters that a URL percent-encodes, and one that a list of users doubles. */
  password = `${randomBytes(24).toString('hex')}@/:?#%"`;
  /** The profiles of compose whose services belong to the project. */
  profiles = '';
  private readonly options: string[];

  /** @param files compose files, relative to the repository; the folder of the first is the project's */
  constructor(...files: readonly [string, ...string[]]) {
    this.options = [
      ...['--project-name', this.name, '--project-directory', dirname(ROOT + files[0])],
      ...files.flatMap((file) => ['--file', ROOT + file]),
    ];
  }

  /** Runs a compose command to its end. @returns its standard output @throws with what it wrote, when it fails */
  async compose(args: readonly string[]): Promise<string> {
    const secrets = { BOOTSTRAP_API_KEY: this.apiKey, POSTGRES_PASSWORD: this.password };
    const env = { ...process.env, ...secrets, PORT: '0', BALANCER_PORT: '0', COMPOSE_PROFILES: this.profiles };
    const command = [...plugin, ...this.options, ...args];
    return (await run(compose, command, { cwd: ROOT, maxBuffer: 1 << 26, env })).stdout;
  }

  /** Runs a command in a running container of a service. */
  exec(service: string, ...command: string[]): Promise<string> {
    return this.compose(['exec', '-T', service, ...command]);
  }

  /** The port of this machine that leads to a port of a container. */
  async port(service: string, containerPort: number): Promise<number> {
    const address = await this.compose(['port', service, String(containerPort)]);
    return Number(address.trim().split(':').at(-1));
  }

  /** Ids of a service's containers, running or not. */
  async containers(service: string): Promise<string[]> {
    const labels = [`project=${this.name}`, `service=${service}`];
    const ids = await docker('ps', '-aq', ...labels.map((label) => `--filter=label=com.docker.compose.${label}`));
    return ids.split('\n').filter(Boolean);
  }

  /** Removes the project's containers, networks and volumes. */
  async remove(): Promise<void> {
    await this.compose(['down', '--volumes', '--timeout', '5', '--remove-orphans']);
  }
}

/** Runs `docker` and returns what it printed. */
export async function docker(...args: string[]): Promise<string> {
  return (await run('docker', args, { maxBuffer: 1 << 26 })).stdout.trim();
}

/** A dozen containers start slowly on a busy machine. */
const PATIENCE = { timeout: 120_000, interval: 100 };

/** Waits until an address answers 200. */
export async function becomesReady(url: string): Promise<void> {
  const isReady = async () => expect((await fetch(url)).status).toBe(200);
  await vi.waitFor(isReady, PATIENCE);
}

/** Waits until Docker finds a container healthy. */
export async function becomesHealthy(container: string): Promise<void> {
  const health = () => docker('inspect', '--format', '{{.State.Health.Status}}', container);
  await vi.waitFor(async () => expect(await health()).toBe('healthy'), PATIENCE);
}
