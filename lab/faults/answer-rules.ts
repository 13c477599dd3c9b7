import type { Exchange, List } from './exchange.ts';
import { ConnectionLost, type Answer } from '../../test/support/http-client.ts';
import { itemText } from '../../test/support/stock.ts';

/** @returns a sentence for each promise about every response that this one breaks */
export function brokenRules(exchange: Exchange, answerWithinMs: number): string[] {
  const { target, connectedAt, start, end, outcome } = exchange;
  const broken: string[] = [];
  if (end - start > answerWithinMs) broken.push(`took ${(end - start).toFixed(0)} ms`);
  if (outcome instanceof ConnectionLost) {
    // Only kill -9 may end a connection during a request, and only an earlier connection.
    if (connectedAt > target.killedAt) broken.push(outcome.message);
  } else if (!isPromised(exchange, outcome)) {
    const retryAfter = outcome.headers['retry-after'] ?? 'none';
    broken.push(`was answered ${outcome.status} ${outcome.text.slice(0, 200)}, Retry-After: ${retryAfter}`);
  }
  return broken;
}

/** What became of an update. */
export function resultOf(outcome: Exchange['outcome']): 'done' | 'unknown' | 'refused' {
  if (outcome instanceof ConnectionLost || outcome.status === 500) return 'unknown';
  if (codeOf(outcome) === 'outcome_unknown') return 'unknown';
  return outcome.status === 200 ? 'done' : 'refused';
}

/** The list that a client has after its request, if there is one. */
export function listAfter({ known }: List, outcome: Exchange['outcome']): string | undefined {
  if (outcome instanceof ConnectionLost) return undefined;
  return outcome.status === 200 ? outcome.text : outcome.status === 304 ? known?.body : undefined;
}

/** The `code` of an Error body, if there is one. */
export function codeOf({ status, text }: Answer): string | undefined {
  if (status < 400) return undefined;
  const { code } = members(text);
  return typeof code === 'string' ? code : undefined;
}

function isPromised({ operation }: Exchange, answer: Answer): boolean {
  const { status, headers, text } = answer;
  if (operation.kind === 'list' && status === 200) return true; // `Linearizability` or Porcupine judges its items
  if (operation.kind === 'list' && status === 304) return operation.known !== undefined;
  if (operation.kind === 'update' && status === 200) {
    const { petId, quantity } = operation;
    return text === itemText(petId, quantity);
  }
  const error = members(text);
  const isError = Object.keys(error).sort().join() === 'code,message,status' && error['status'] === status;
  if (!isError || !headers['content-type']?.startsWith('application/json')) return false;
  if (status === 412) return operation.kind === 'update' && operation.expected !== undefined;
  const isUnavailable = ['service_unavailable', 'outcome_unknown'].includes(String(error['code']));
  return status === 503 && isUnavailable && /^\d+$/.test(headers['retry-after'] ?? '');
}

function members(body: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
