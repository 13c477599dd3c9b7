// Runs on whatever Node.js installs the project. npm before version 11 removes the command `node` of the package for
// this machine together with those for the others, which share its name; npm scripts would then run on the machine's
// own.
import { existsSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { isInstalled, isWindows, ownProgram, starts } from './own-node.js';

const command = new URL(`../node_modules/.bin/node${isWindows ? '.cmd' : ''}`, import.meta.url);

if (isInstalled() && !starts()) {
  rmSync(command, { force: true }); // npm scripts run on the machine's own
} else if (isInstalled() && !existsSync(command)) {
  rmSync(command, { force: true }); // a link that leads nowhere
  if (isWindows) writeFileSync(command, `@"%~dp0\\..\\${ownProgram.replaceAll('/', '\\')}" %*\r\n`);
  else symlinkSync(`../${ownProgram}`, command);
}
