/** The door of the library: outside of this folder, only `json.ts` is imported beside it, which loads in no time. */
export { type Connection } from './connection.ts';
export { ENTITY_TAG_LIST, entityTags } from './entity-tags.ts';
export { StrictExpressAdapter } from './express.adapter.ts';
export { type ErrorKind, HTTP_ERRORS, HttpError } from './http-error.ts';
export { BODY_TOO_LARGE, JsonBody } from './json-body.ts';
export { LIMITS, type Limits } from './limits.ts';
export { REFUSED, type Refused } from './parser-errors.ts';
export { type Access, type ApiRequest, REQUEST_ID_RULE, contextOf } from './request-context.ts';
export { RequestHeader, headerValues } from './request-headers.ts';
export { addCommonHeaders, sendError, writeHead } from './responses.ts';
export { kindOfJson } from './value-kinds.ts';
