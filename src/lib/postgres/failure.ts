/** An error whose message is written for the operator, a line for each thing to know. */
export class Failure extends Error {}
