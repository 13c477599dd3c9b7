import type { Application } from 'express';

interface Layer {
  readonly route?: { readonly methods: Readonly<Record<string, boolean>> };
  match(path: string): boolean;
}

/** The methods of the routes at this path, or of all routes for `*`, with `HEAD` and `OPTIONS`. */
export function methodsAt(app: Application, path: string): string[] {
  const methods = new Set<string>();
  for (const layer of (app.router as unknown as { stack: readonly Layer[] }).stack) {
    if (!layer.route || !(path === '*' || layer.match(path))) continue;
    for (const method of Object.keys(layer.route.methods)) methods.add(method.toUpperCase());
  }
  if (methods.has('GET')) methods.add('HEAD');
  if (methods.size > 0) methods.add('OPTIONS');
  return [...methods].sort();
}
