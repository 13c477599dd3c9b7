/** A failure that surely left no trace in the database. */
export class NotApplied extends Error {}
