import { keys } from './database.ts';

interface Ask {
  key?: string;
  headers?: Record<string, string>;
  /** The body of a PATCH. */
  update?: string;
}

/** One request outside of the load, uncompressed and with the key that may do everything where nothing else is said. */
export function ask(url: string, { key = keys.good, headers, update }: Ask = {}): Promise<Response> {
  const json = update === undefined ? {} : { 'Content-Type': 'application/json' };
  return fetch(url, {
    method: update === undefined ? 'GET' : 'PATCH',
    headers: { Authorization: `Bearer ${key}`, 'Accept-Encoding': 'identity', ...json, ...headers },
    ...(update === undefined ? {} : { body: update }),
  });
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
