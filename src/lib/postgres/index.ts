/** The door of the library: nothing else of it is imported from outside. Node.js runs all of it without a build. */
export { type Batch, type BatchEnd, Batcher, FailedCall, batchCalls, batchEnds, batchStarts } from './batcher.ts';
export {
  ALL_ROWS,
  type Prepare,
  SESSION_SETTINGS,
  UNCONFIRMED_COMMIT,
  connectionConfig,
  cut,
  openConnection,
  schemaForPrisma,
} from './connection-config.ts';
export { ConnectionPool, REQUEST_SETTINGS, type RequestSession, configOfRequests } from './connection-pool.ts';
export {
  type DatabaseFailure,
  type ErrorReader,
  type Kind,
  type Outcome,
  errorReader,
  keepFacts,
} from './database-failure.ts';
export { postgresUrl } from './database-url.ts';
export { DeadlinePassed, boundsOfRequest, byDeadline, leastTimeToSend, retryUntilDeadline } from './deadline.ts';
export {
  Failure,
  NotApplied,
  OutcomeUnknown,
  RefusedValue,
  SQLSTATE,
  TooManyWaiting,
  UnconfirmedCommit,
} from './outcomes.ts';
export { withPasswordFile } from './password-file.ts';
export { type Query, queryOfClient, queryOfPrisma } from './query.ts';
export { type Statement, StatementConnection, arrayLiteral, statementNames } from './statement-connection.ts';
