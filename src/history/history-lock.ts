/** Only one session at a time moves or removes rows of the history. */
export const HISTORY_LOCK = `SELECT pg_advisory_xact_lock(hashtextextended('inventory history', 0))`;
