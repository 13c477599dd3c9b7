/** What was asked for could not be done. The message is written for the operator, a line for each thing to know. */
export class Failure extends Error {}
