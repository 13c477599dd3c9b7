// npm scripts load this first (`node --import`): it says in one line what the installation lacks. It is JavaScript,
// because an older Node.js would end a TypeScript file with a stack trace.
import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = new URL('../', import.meta.url);
const manifest = JSON.parse(readFileSync(new URL('package.json', project), 'utf8'));
const [needed] = /\d+/.exec(manifest.engines.node);
const script = relative(fileURLToPath(project), process.argv[1] ?? '');
const isProduction = script.startsWith('dist') || process.env.npm_lifecycle_event === 'postinstall';
const everything = 'npm ci --include=dev --include=optional';
/** Npm writes it at the end of an installation. */
const DONE = '.package-lock.json';

const fault = parseInt(process.versions.node) < needed ? nodeFault() : packageFault();
if (fault) {
  console.error(fault);
  process.exit(1);
}

function nodeFault() {
  const own = `On Linux with glibc and on Windows, npm brings its own. Type: ${everything}`;
  return `Node.js ${needed} or later is missing: this is ${process.version}. ${own}`;
}

function packageFault() {
  const names = Object.keys({ ...manifest.dependencies, ...(isProduction ? {} : manifest.devDependencies) });
  const isWhole = [...names, DONE].every((name) => existsSync(new URL(`node_modules/${name}`, project)));
  if (!isWhole) return `The packages are not all installed. Type: ${isProduction ? 'npm ci' : everything}`;
  if (!existsSync(process.argv[1])) return `${script} is not built. Type: npm run build`;
}
