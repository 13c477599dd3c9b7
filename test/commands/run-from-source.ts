import { registerHooks } from 'node:module';

/** Lets Node run `src/` as it stands, where imports name the compiled file: preloaded by tests that start a command. */
registerHooks({
  resolve: (specifier, context, next) =>
    next(context.parentURL?.includes('/src/') ? specifier.replace(/^(\..*)\.js$/, '$1.ts') : specifier, context),
});
