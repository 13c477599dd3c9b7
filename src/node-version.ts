/*
 * What both programs import first, so that nothing else has run. Without JSON.rawJSON an import rounds ids, and the
 * service commits updates that it answers with 500.
 */
if (!('rawJSON' in JSON)) {
  process.stderr.write(`inventory: needs Node.js 24 or newer, and this is ${process.version}\n`);
  process.exit(1);
}
