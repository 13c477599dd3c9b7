import pg from 'pg';
import type { Settings } from '../settings.js';
import { connectionConfig, type Prepare } from './connection-config.js';
import { boundsOfRequest } from './deadline.js';

const SETTINGS = {
  // All statements look rows up by their keys, or read them in the order of these. To plan them anew each time would cost
  // as much as running them; and a plan made while a table was small must not scan it when it has grown.
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  idle_in_transaction_session_timeout: '5000',
};
const MAX_LIFETIME_SECONDS = 1_800;

/**
 * Connections for requests. None is let go when idle: others may take all that are free. Prisma gives back one that it could
 * not roll back, which is ended, or the next would read by its old snapshot.
 */
export function createPool(settings: Settings, name: string, max: number, prepare?: Prepare): pg.Pool {
  const bounds = boundsOfRequest(settings.REQUEST_DEADLINE_MS);
  const config = connectionConfig(settings.DATABASE_URL, name, bounds, SETTINGS, prepare);
  const pool = new pg.Pool({ ...config, max, idleTimeoutMillis: 0, maxLifetimeSeconds: MAX_LIFETIME_SECONDS });
  pool.on('release', (_error, client) => {
    if (client.getTransactionStatus() !== 'I') void client.end();
  });
  return pool;
}
