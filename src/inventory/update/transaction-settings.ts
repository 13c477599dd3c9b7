/**
 * What the transaction of an update sets for itself, in both services:
 * - the table's trigger writes no history row, because the update writes it, with key and request
 * - the warning that no standby confirmed the commit is not hidden
 * - the commit is on disk, and has waited for the synchronous standby if there is one
 * - PostgreSQL 17 and later end the transaction if nobody else does
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
