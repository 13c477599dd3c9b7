/** PostgreSQL's codes that callers ask for. */
export const SQLSTATE = {
  readOnly: '25006',
  undefinedTable: '42P01',
  wrongObjectType: '42809',
  lockNotAvailable: '55P03',
  queryCanceled: '57014',
} as const;

/** An error whose message is written for the operator, a line for each thing to know. */
export class Failure extends Error {}

/** A failure that surely left no trace in the database. */
export class NotApplied extends Error {}

/** More calls wait than the service is willing to keep; trying again at once makes it worse. */
export class TooManyWaiting extends NotApplied {
  override message = 'too many calls wait for the database';
}

/** A rule or a trigger that somebody added to the database refuses the value, or changes it. Nothing was written. */
export class RefusedValue extends Error {}

/** A write that may or may not have taken place. */
export class OutcomeUnknown extends Error {}

/** A failover may still lose the commit. */
export class UnconfirmedCommit extends OutcomeUnknown {
  override message = 'the commit is not confirmed by the synchronous standby';
}
