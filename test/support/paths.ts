/** The paths of the service, and the methods of their handlers. */
const HANDLERS = {
  '/v1/inventory': ['GET'],
  '/v1/inventory/:petId': ['PATCH'],
  '/health/live': ['GET'],
  '/health/ready': ['GET'],
  '/openapi.json': ['GET'],
  '/docs': ['GET'],
  '/metrics': ['GET'],
} as const;

export type Path = keyof typeof HANDLERS;
export const PATHS = Object.keys(HANDLERS) as Path[];

/** The methods that have a response at paths. */
export function methodsAt(...paths: readonly Path[]): string[] {
  const methods = new Set<string>(paths.flatMap((path) => HANDLERS[path]));
  if (methods.has('GET')) methods.add('HEAD');
  return [...methods].sort();
}

/** The methods in `Allow`. */
export const allowAt = (...paths: readonly Path[]) => [...methodsAt(...paths), 'OPTIONS'].sort().join(', ');
