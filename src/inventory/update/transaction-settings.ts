/**
 * What the transaction of an update sets for itself, in both services. With `inventory.recorded_in`, the table's
 * trigger writes no history row: the update writes it, with key and request. The commit is durable, and waits for the
 * synchronous standby, as with `local` it would not. PostgreSQL warns if no standby confirms it, which
 * `client_min_messages = error` would hide. PostgreSQL 17 and later end a transaction that nobody ends.
 *
 * @param timeoutMs SQL for a text: how long the transaction may last
 */
export const transactionSettings = (
  timeoutMs: string,
) => `set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('client_min_messages')
                WHEN 'error' THEN set_config('client_min_messages', 'warning', true) END,
           CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
                THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', ${timeoutMs}, true) END`;
