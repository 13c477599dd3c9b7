import { ERRORS, type ErrorCode } from '../../src/errors/error-code.ts';
import type { PetStatus } from '../../src/generated/prisma/enums.ts';
import type { Answer } from './http-client.ts';
import { PATHS, allowAt } from './paths.ts';
import { itemText } from './stock.ts';

/**
 * An answer without what differs from one to the next or belongs to the connection: such answers are compared whole.
 */
export type WholeAnswer = ReturnType<typeof whole>;

const NOT_COMPARED = new Set(['date', 'content-length', 'connection', 'keep-alive']);

/** In the place of an `X-Request-Id` of the right form: each answer has another one. */
const SOME_ID = '<id>';

const ON_EVERY_ANSWER = {
  'x-request-id': SOME_ID,
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
};
const JSON_BODY = { 'content-type': 'application/json; charset=utf-8' };

export function whole({ status, headers, text }: Answer) {
  const compared = Object.entries(headers)
    .filter(([name]) => !NOT_COMPARED.has(name))
    .map(([name, value]) => [name, name === 'x-request-id' ? value.replace(/^[\w-]{1,64}$/, SOME_ID) : value]);
  return { status, headers: Object.fromEntries(compared) as Record<string, string>, body: text };
}

export function answer(status: number, headers: Readonly<Record<string, string>>, body = ''): WholeAnswer {
  return { status, headers: { ...ON_EVERY_ANSWER, ...headers }, body };
}

export function refusal(code: ErrorCode, message: string, headers: Readonly<Record<string, string>> = {}): WholeAnswer {
  const status = ERRORS[code].status;
  const body = JSON.stringify({ code, message, status });
  return answer(status, { ...JSON_BODY, 'cache-control': 'no-store', ...headers }, body);
}

/** The answer to an update that was made. */
export function updated(petId: string, quantity: number, status: PetStatus = 'available'): WholeAnswer {
  return answer(
    200,
    { ...JSON_BODY, 'cache-control': 'no-store', etag: `"${status}-${quantity}"` },
    itemText(petId, quantity, status),
  );
}

/** The answer to an update that had been made before. */
export function replayed(petId: string, quantity: number, status: PetStatus = 'available'): WholeAnswer {
  const { headers, ...first } = updated(petId, quantity, status);
  return { ...first, headers: { ...headers, 'idempotent-replayed': 'true' } };
}

/** The list, as it is or in a coding; the tag is `entityTag`, quotes included. */
export function listed(body: string, entityTag: string, contentEncoding?: string): WholeAnswer {
  const coding = contentEncoding === undefined ? {} : { 'content-encoding': contentEncoding };
  return answer(200, { ...JSON_BODY, ...coding, ...ofList(entityTag) }, body);
}

export function notModified(entityTag: string): WholeAnswer {
  return answer(304, ofList(entityTag));
}

function ofList(entityTag: string): Record<string, string> {
  return { etag: entityTag, 'cache-control': 'private, no-cache', vary: 'Accept-Encoding' };
}

const CHALLENGE = 'Bearer realm="inventory"';
const NO_KEY = 'The API key is missing or invalid.';

/** Every refusal, word for word. */
export const refused = {
  connect: refusal('method_not_allowed', 'This service is no proxy.', { allow: allowAt(...PATHS) }),
  unknownMethod: refusal(
    'bad_request',
    'The method is not known: methods are written in capital letters, such as PATCH.',
  ),
  noKey: refusal('unauthorized', NO_KEY, { 'www-authenticate': CHALLENGE }),
  badKey: refusal('unauthorized', NO_KEY, { 'www-authenticate': `${CHALLENGE}, error="invalid_token"` }),
  forbidden: (scope: string) =>
    refusal('forbidden', `The API key lacks the scope ${scope}.`, {
      'www-authenticate': `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`,
    }),
  noRoute: refusal('not_found', 'There is nothing at this path.'),
  noPet: refusal('not_found', 'There is no pet with this petId.'),
  method: (allow: string) => refusal('method_not_allowed', `This path takes ${allow} only.`, { allow }),
  petId: refusal(
    'validation_failed',
    'petId must be an integer from -9223372036854775808 to 9223372036854775807 in canonical decimal form.',
  ),
  precondition: (presentTag: string) =>
    refusal(
      'precondition_failed',
      'If-Match does not hold: none of its tags is the present one. A weak tag (W/) never matches. A proxy that compresses can make a tag weak, or add a suffix.',
      { etag: presentTag },
    ),
  ifNoneMatch: refusal('bad_request', 'An update takes If-Match, not If-None-Match: nothing was written.'),
  idempotencyKey: refusal(
    'bad_request',
    'Idempotency-Key must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key.',
  ),
  changeReason: refusal(
    'bad_request',
    'Change-Reason must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key.',
  ),
  reusedKey: refusal('idempotency_key_reused', 'This Idempotency-Key belongs to another update: nothing was written.'),
  mediaType: refusal('unsupported_media_type', 'The body must be application/json in UTF-8.'),
  contentEncoding: refusal('unsupported_media_type', 'The body must not have a Content-Encoding.'),
  tooLarge: refusal('payload_too_large', 'The body is larger than 1024 bytes.'),
  ifMatch: refusal(
    'bad_request',
    'If-Match must be * or a list of entity tags in double quotes, such as "available-12".',
  ),
  noBody: refusal('bad_request', 'A JSON body is required.'),
  notJson: refusal(
    'bad_request',
    'The body is not JSON. A shell may have removed its double quotes: send the JSON from a file.',
  ),
  notUtf8: refusal('bad_request', 'The body is not UTF-8.'),
  repeated: (member: string) => refusal('bad_request', `${member} is there more than once.`),
  notObject: (found: string) => refusal('validation_failed', `The body must be a JSON object, but is ${found}.`),
  unknownMember: (member: string) => refusal('validation_failed', `${member} is unknown: the body has only quantity.`),
  quantity: (found: string) =>
    refusal('validation_failed', `quantity must be an integer from 0 to 2147483647, but is ${found}.`),
  rule: refusal('validation_failed', 'A rule of the database refuses this update: nothing was written.'),
  malformed: refusal('bad_request', 'The request is not well-formed HTTP/1.1.'),
  httpVersion: refusal('bad_request', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.'),
  notWhole: refusal('bad_request', 'The request did not arrive whole.'),
  noHost: refusal('bad_request', 'Exactly one Host header is required.'),
  transferCoding: refusal('bad_request', 'The only transfer coding taken is chunked, in HTTP/1.1.'),
  host: refusal('bad_request', 'The Host header is malformed.'),
  target: refusal('bad_request', 'The request target is malformed.'),
  targetTooLong: refusal('uri_too_long', 'The request target is longer than 2048 characters.'),
  headersTooLarge: refusal('header_fields_too_large', 'The headers are larger than 16 KiB.'),
  tooManyHeaders: refusal('header_fields_too_large', 'More than 100 headers.'),
  late: refusal('request_timeout', 'The request did not arrive in time.'),
  failed: refusal('internal_error', 'The service failed; its log says why.'),
} as const;
