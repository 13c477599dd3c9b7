import { applyDecorators } from '@nestjs/common';
import { ApiBody, ApiExtension, ApiHeader, ApiOperation, ApiParam, ApiResponse } from '@nestjs/swagger';
import { lacksScope } from '../keys/scopes.ts';
import { ERRORS } from '../errors/error-code.ts';
import { BODY_TOO_LARGE, ENTITY_TAG_LIST, kindOfJson } from '../lib/http/index.ts';
import { LONGEST_NAME, SAFE_NAME } from '../safe-text.ts';
import { FailsWith, REQUEST_ID, entityTag } from '../errors/response-docs.ts';
import { InventoryItem, InventoryUpdate, PET_ID_SCHEMA } from './inventory.dto.ts';
import { IF_MATCH_RULE } from './entity-tags.ts';
import { QUANTITY_FORM } from './item-limits.ts';

const EXAMPLE_LIST_TAG = '"0vLW2Tj1Rk2mBn0wQ3c5Zt8yHdE"';
const EXAMPLE: Record<keyof InventoryItem, unknown> = { petId: 1, quantity: 12, status: 'available' };
const EXAMPLE_TAG = '"available-12"';

/** What can happen to a request before the operation sees it. */
const ANY_REQUEST = {
  unauthorized: {},
  request_timeout: { description: 'The request did not arrive in time. Send it again on a new connection.' },
  uri_too_long: {},
  too_many_requests: { description: 'Too many requests with this key. Wait for `Retry-After` before the next.' },
  header_fields_too_large: { description: 'The header fields are too many or too large.' },
  internal_error: { description: 'The service failed. Its log has the cause under the `X-Request-Id`.' },
};

export function ListInventoryDocs(): MethodDecorator {
  const tag = entityTag('Names this state of the list. Send it in `If-None-Match`.', EXAMPLE_LIST_TAG);
  const headers = { ...REQUEST_ID, ...tag };
  return applyDecorators(
    ApiOperation({
      operationId: 'listInventory',
      summary: 'List the whole stock',
      description: `The stock of all pets in the store at one moment, by ascending \`petId\`. The list is complete: there are no pages.
An empty store is \`[]\`.`,
    }),
    ApiHeader({
      name: 'If-None-Match',
      required: false,
      description: 'The `ETag` of an earlier list. If the list has not changed, the response is 304 without a body.',
      example: EXAMPLE_LIST_TAG,
    }),
    ApiHeader({
      name: 'If-Match',
      required: false,
      description:
        'One or more tags of the list, or `*`. If none is the present tag in either coding, the response is 412.',
      schema: { type: 'string', pattern: ENTITY_TAG_LIST.source },
      example: EXAMPLE_LIST_TAG,
    }),
    ApiResponse({
      status: 200,
      description: 'The stock.',
      headers,
      type: InventoryItem,
      isArray: true,
      example: [EXAMPLE, { ...EXAMPLE, petId: 3, quantity: 0, status: 'sold' }],
    }),
    ApiResponse({ status: 304, description: 'The list has not changed.', headers }),
    FailsWith({
      ...ANY_REQUEST,
      bad_request: {},
      forbidden: { message: lacksScope('inventory:read') },
      precondition_failed: {
        headers: entityTag('The present tag of the list.', EXAMPLE_LIST_TAG),
      },
      service_unavailable: {},
    }),
  );
}

export function UpdateInventoryDocs(): MethodDecorator {
  return applyDecorators(
    ApiExtension('x-stability', 'experimental'), // an operation without it is stable (docs/interface.md, section 9)
    ApiOperation({
      operationId: 'updateInventory',
      summary: 'Set the stock of one pet (experimental)',
      description: `Sets the quantity of one pet, after an arrival, a return or a count. The status stays as it is.

Without \`If-Match\`, the last writer wins. With it, the quantity is set only if the pet is still in the state that you saw. The tag
of an item is \`"<status>-<quantity>"\`, such as \`"available-12"\`, so you can write it from the list. \`If-None-Match\` is 400.

With an \`Idempotency-Key\`, you can repeat the update after \`outcome_unknown\`, or if there was no response: it takes place once.

This operation is **experimental**: the shape of its request may change before it is stable.`,
    }),
    ApiParam({ name: 'petId', description: 'Identifier of the pet, in plain decimal digits.', schema: PET_ID_SCHEMA }),
    ApiHeader({
      name: 'If-Match',
      required: false,
      description: `One or more tags of the item in double quotes, separated by commas. \`*\` matches every state. A weak tag or a tag
with a suffix never matches. A proxy that compresses makes such tags of \`ETag\`, so write the tag from status and quantity.`,
      schema: { type: 'string', pattern: ENTITY_TAG_LIST.source },
      example: EXAMPLE_TAG,
    }),
    ApiHeader({
      name: 'Idempotency-Key',
      required: false,
      description: `Names this update, such as a new UUID. For at least a day, a repetition with the same key, pet, quantity and
\`If-Match\` writes nothing and gets the first response again. It belongs to the API key; a refused update leaves it free.`,
      schema: { type: 'string', pattern: SAFE_NAME.source, maxLength: LONGEST_NAME + 2 }, // with quotes
    }),
    ApiHeader({
      name: 'Change-Reason',
      required: false,
      description: `Why the quantity changes, such as \`new-arrival\`, \`return\` or \`adjustment\`. The history keeps it. A repetition may leave
it out: the first reason stays.`,
      schema: { type: 'string', pattern: SAFE_NAME.source, maxLength: LONGEST_NAME },
      example: 'new-arrival',
    }),
    ApiBody({ type: InventoryUpdate, description: 'The new stock.' }),
    ApiResponse({
      status: 200,
      description: 'The item after the update. The change is committed: every later list shows it or a later change.',
      headers: {
        ...REQUEST_ID,
        ...entityTag('The tag of the item after the update.', EXAMPLE_TAG),
        'Idempotent-Replayed': {
          description: 'Present if an earlier request with the same `Idempotency-Key` made the update.',
          schema: { type: 'string', enum: ['true'] },
        },
      },
      type: InventoryItem,
      example: EXAMPLE,
    }),
    FailsWith({
      ...ANY_REQUEST,
      bad_request: {
        message: IF_MATCH_RULE,
        description: 'The request breaks a rule that `message` names. Nothing was written.',
      },
      validation_failed: { message: `quantity must be ${QUANTITY_FORM}, but is ${kindOfJson(1.5)}.` },
      forbidden: { message: lacksScope('inventory:write') },
      not_found: { description: 'The requested resource could not be found.' },
      idempotency_key_reused: {},
      precondition_failed: {
        headers: entityTag('The present tag of the item.', '"available-9"'),
      },
      payload_too_large: { message: BODY_TOO_LARGE },
      unsupported_media_type: {},
      service_unavailable: {
        description: `\`service_unavailable\`: nothing was written, try again. \`outcome_unknown\`: ${ERRORS.outcome_unknown.message}`,
      },
      outcome_unknown: {},
    }),
  );
}
