import { registerHooks } from 'node:module';

/**
 * Preloaded into a service, makes it wrong: it reads an error by its code alone, as if TLS could fail only before a
 * statement was sent.
 */
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith('/dist/database/database-failure.js')) return loaded;
    const source = Buffer.from(loaded.source as Uint8Array).toString();
    const head = 'export function outcomeOf(error) {';
    if (!source.includes(head)) throw new Error('the service reads errors elsewhere now');
    const byCode = `if (/^ERR_SSL_/.test(error?.code)) return 'not_applied';`;
    return { ...loaded, source: source.replace(head, `${head} ${byCode}`) };
  },
});
