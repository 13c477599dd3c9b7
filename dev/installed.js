// npm scripts load this first (`node --import`): it says in one line what the installation lacks. It is JavaScript, because an
// older Node.js would end a TypeScript file with a stack trace.
import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isInstalled, ownPackage, starts } from './own-node.js';

const project = new URL('../', import.meta.url);
const manifest = JSON.parse(readFileSync(new URL('package.json', project), 'utf8'));
const [needed] = /\d+/.exec(manifest.engines.node);
const script = relative(fileURLToPath(project), process.argv[1] ?? '');
const isProduction = script.startsWith('dist') || process.env.npm_lifecycle_event === 'postinstall';
const everything = 'npm ci --include=dev --include=optional';
/** Written at the end of an installation by npm, pnpm and yarn. */
const DONE = ['.package-lock.json', '.modules.yaml', '.yarn-state.yml', '.yarn-integrity'];

const fault = parseInt(process.versions.node) < needed ? nodeFault() : packageFault();
if (fault) {
  console.error(fault);
  process.exit(1);
}

function nodeFault() {
  const fault = `Node.js ${needed} or later is missing: this is ${process.version}`;
  if (!(ownPackage in manifest.optionalDependencies)) return `${fault}. Install it, then type: npm ci`;
  if (!isInstalled()) return `${fault}, and npm has not installed ${ownPackage}. Type: ${everything}`;
  if (starts()) return `${fault}, and npm has not linked ${ownPackage}. Type: npm run install`;
  const system = process.platform === 'linux' ? ', which needs Linux with glibc' : '';
  return `${fault}, and ${ownPackage}${system}, does not start here. Install Node.js ${needed}, or type: docker compose up`;
}

function packageFault() {
  const names = Object.keys({ ...manifest.dependencies, ...(isProduction ? {} : manifest.devDependencies) });
  const missing = names.find((name) => !existsSync(new URL(`node_modules/${name}`, project)));
  const advice = `Type: ${isProduction ? 'npm ci' : everything}`;
  if (missing) return `The package ${missing} is not installed. ${advice}`;
  if (!DONE.some((name) => existsSync(new URL(`node_modules/${name}`, project))))
    return `The installation did not finish. ${advice}`;
  if (!existsSync(process.argv[1])) return `${script} is not built. Type: npm run build`;
}
