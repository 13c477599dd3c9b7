import { keys } from './database.ts';

interface Ask {
  key?: string;
  headers?: Record<string, string>;
  /** The body of a PATCH. */
  update?: string | undefined;
}

/** One request outside of the load, uncompressed and with the key that may do everything where nothing else is said. */
export function ask(url: string, { key = keys.good, headers, update }: Ask = {}): Promise<Response> {
  const signal = AbortSignal.timeout(60_000);
  const own = { Authorization: `Bearer ${key}`, 'Accept-Encoding': 'identity', ...headers };
  if (update === undefined) return fetch(url, { headers: own, signal });
  return fetch(url, { method: 'PATCH', headers: { ...own, 'Content-Type': 'application/json' }, body: update, signal });
}

/** Reads the response to its end and keeps nothing of it, so that this program is not what is measured. */
export async function statusOf(response: Promise<Response>): Promise<number> {
  const { status, body } = await response;
  await body?.pipeTo(new WritableStream());
  return status;
}

export function setQuantity(url: string, pet: number, quantity: number): Promise<number> {
  return statusOf(ask(`${url}/${pet}`, { update: JSON.stringify({ quantity }) }));
}
