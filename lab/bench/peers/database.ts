import { hash } from 'node:crypto';
import pg from 'pg';
import { GOOD_KEY, LIST, update } from './statements.ts';

// BigInt keeps every int64 exact; the default is a string, which a schema would turn into a rounded number.
pg.types.setTypeParser(pg.types.builtins.INT8, BigInt);

/** Ten connections, as many as the service has in all. */
const pool = new pg.Pool({
  connectionString: process.env['DATABASE_URL'],
  max: 10,
  idleTimeoutMillis: 0,
  keepAlive: true,
});

const { rows: version } = await pool.query<{ server_version_num: string }>('SHOW server_version_num');
const UPDATE = update(Number(version[0]?.server_version_num));

export interface Key {
  id: string;
  allowed: boolean;
}

interface Item {
  petId: bigint;
  quantity: number;
  status: string;
}

export interface Author {
  changedBy: string;
  requestId: string;
}

/** The key as a caller sends it, or undefined when the header is not `Bearer <token>`. */
export function bearerToken(authorization: string | undefined): string | undefined {
  return /^Bearer ([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization ?? '')?.[1];
}

/** The key as the database has it now; undefined when it is unknown, expired or revoked. */
export async function findKey(token: string, scope: string): Promise<Key | undefined> {
  const values = [hash('sha256', token, 'buffer'), scope];
  const { rows } = await pool.query<Key>({ name: 'key', text: GOOD_KEY, values });
  return rows[0];
}

export async function listItems(): Promise<Item[]> {
  const { rows } = await pool.query<Item>({ name: 'list', text: LIST });
  return rows;
}

/** Sets the quantity and writes one history row in the same statement. */
export async function setQuantity(petId: string, quantity: number, author: Author): Promise<Item | undefined> {
  const values = [petId, quantity, author.changedBy, author.requestId];
  const { rows } = await pool.query<Item>({ name: 'update', text: UPDATE, values });
  return rows[0];
}

/** The decimal form of an int64 and nothing else. */
export function isInt64(text: string): boolean {
  return /^(0|-?[1-9][0-9]{0,18})$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);
}
