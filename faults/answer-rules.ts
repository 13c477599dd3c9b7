import type { Exchange } from './exchange.ts';
import { ConnectionLost, type Answer } from '../test/support/http-client.ts';

const UNAVAILABLE_CODES = ['service_unavailable', 'outcome_unknown'];

/** What an answer breaks of what the interface promises of every single one; a sentence each. */
export function brokenRules(exchange: Exchange, answerWithinMs: number): string[] {
  const { outcome, start, end } = exchange;
  const broken: string[] = [];
  if (end - start > answerWithinMs) broken.push(`took ${(end - start).toFixed(0)} ms`);
  if (outcome instanceof ConnectionLost) {
    // Only kill -9 may end a connection under a request, and no connection that was made after it.
    if (exchange.connectedAt > exchange.target.killedAt) broken.push(outcome.message);
  } else if (outcome.status >= 400) {
    broken.push(...brokenByError(exchange, outcome));
  } else if (exchange.operation.kind === 'update') {
    const { petId, quantity } = exchange.operation;
    const expected = JSON.stringify({ petId, quantity, status: 'available' });
    if (outcome.status !== 200 || outcome.text !== expected) broken.push(`was answered ${shown(outcome)}`);
  } else if (outcome.status !== 200 && !(outcome.status === 304 && exchange.operation.known)) {
    broken.push(`was answered ${shown(outcome)}`);
  }
  return broken;
}

/** The `code` of an Error body, where there is one. */
export function codeOf(answer: Answer): string | undefined {
  const { code } = members(answer.text);
  return answer.status >= 400 && typeof code === 'string' ? code : undefined;
}

function brokenByError({ operation }: Exchange, answer: Answer): string[] {
  const broken: string[] = [];
  const error = members(answer.text);
  const isError =
    Object.keys(error).sort().join() === 'code,message,status' &&
    error['status'] === answer.status &&
    answer.headers['content-type']?.startsWith('application/json');
  if (!isError) broken.push(`has no Error body: ${shown(answer)}`);
  if (answer.status === 503) {
    if (!UNAVAILABLE_CODES.includes(String(error['code']))) broken.push(`has a code of its own: ${shown(answer)}`);
    if (!/^\d+$/.test(answer.headers['retry-after'] ?? '')) broken.push('was answered 503 without Retry-After');
  } else if (answer.status !== 412 || operation.kind !== 'update' || operation.expected === undefined) {
    broken.push(`was answered ${shown(answer)}`);
  }
  return broken;
}

function shown({ status, text }: Answer): string {
  return `${status} ${text.slice(0, 200)}`;
}

function members(body: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
