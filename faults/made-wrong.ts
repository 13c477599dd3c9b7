import { registerHooks } from 'node:module';

/** Preloaded into a service, makes it wrong on purpose, as `madeWrong` says. */
const [file = '', right = '', wrong = ''] = JSON.parse(process.env['MADE_WRONG'] ?? '[]') as string[];

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith(`/dist/${file}`)) return loaded;
    const source = Buffer.from(loaded.source as Uint8Array).toString();
    if (!source.includes(right)) throw new Error(`${file} has no "${right}" now`);
    return { ...loaded, source: source.replace(right, wrong) };
  },
});
