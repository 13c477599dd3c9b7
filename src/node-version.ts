/*
 * Both programs import this first, before other code runs. Without JSON.rawJSON an import rounds ids, and the service
 * commits updates that it answers with 500.
 */
if (!('rawJSON' in JSON)) {
  process.stderr.write(`inventory: needs Node.js 24 or newer, and this is ${process.version}\n`);
  process.exit(1);
}
