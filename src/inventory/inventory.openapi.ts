import { applyDecorators } from '@nestjs/common';
import { ApiBody, ApiExtension, ApiHeader, ApiOperation, ApiParam, ApiResponse } from '@nestjs/swagger';
import { lacksScope } from '../auth/scopes.js';
import { ERRORS } from '../errors/error-code.js';
import { BODY_TOO_LARGE } from '../http/json-body.js';
import { FailsWith, REQUEST_ID, entityTag } from '../openapi/response-docs.js';
import { InventoryItem, InventoryUpdate, PET_ID_SCHEMA, QUANTITY_RULE } from './inventory.dto.js';
import { ENTITY_TAG_LIST, IDEMPOTENCY_KEY, IF_MATCH_RULE } from './inventory.pipes.js';

const LIST_TAG = '"0vLW2Tj1Rk2mBn0wQ3c5Zt8yHdE"';
const ITEM: Record<keyof InventoryItem, unknown> = { petId: 1, quantity: 12, status: 'available' };
const ITEM_TAG = '"available-12"';

/** What can happen to a request before the operation sees it. */
const ANY_REQUEST = {
  unauthorized: {},
  request_timeout: { description: 'The request did not arrive in time. Send it again on a new connection.' },
  uri_too_long: {},
  too_many_requests: { description: 'Too many requests with this key: wait before the next.' },
  header_fields_too_large: { description: 'The header fields are too many or too large.' },
  internal_error: { description: 'The service failed. Its log, under the `X-Request-Id`, says why.' },
};

export function ListInventoryDocs(): MethodDecorator {
  const tag = entityTag('Names this state of the list. Send it back in `If-None-Match`.', LIST_TAG);
  const headers = { ...REQUEST_ID, ...tag };
  return applyDecorators(
    ApiOperation({
      operationId: 'listInventory',
      summary: 'List the whole stock',
      description: `Current stock of every pet in the store, in ascending \`petId\`, as it was at one moment. Always complete: there
are no pages. \`[]\` when the store is empty.`,
    }),
    ApiHeader({
      name: 'If-None-Match',
      required: false,
      description: 'An `ETag` from before: while the list is still the same, the response is 304 without a body.',
      schema: { type: 'string' },
      example: LIST_TAG,
    }),
    ApiResponse({
      status: 200,
      description: 'The stock.',
      headers,
      type: InventoryItem,
      isArray: true,
      example: [ITEM, { ...ITEM, petId: 3, quantity: 0, status: 'sold' }],
    }),
    ApiResponse({ status: 304, description: 'The list is still the one you have.', headers }),
    FailsWith({
      ...ANY_REQUEST,
      bad_request: {},
      forbidden: { message: lacksScope('inventory:read') },
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

Without \`If-Match\` the last writer wins. With it, the quantity is set only if the pet is still in the state that you saw: the tag
of an item is \`"<status>-<quantity>"\`, as in \`"available-12"\`, so it can be written from the list.

With an \`Idempotency-Key\` the update can be repeated after \`outcome_unknown\`, or no response at all, until there is one: it takes
place once.

This operation is **experimental**: the shape of its request may change before it is stable.`,
    }),
    ApiParam({ name: 'petId', description: 'Identifier of the pet, in plain decimal digits.', schema: PET_ID_SCHEMA }),
    ApiHeader({
      name: 'If-Match',
      required: false,
      description:
        'The tag of the item as you saw it, in double quotes, or several with commas between. `*` is any state.',
      schema: { type: 'string', pattern: ENTITY_TAG_LIST.source },
      example: ITEM_TAG,
    }),
    ApiHeader({
      name: 'Idempotency-Key',
      required: false,
      description: `Names this update, as a new UUID does. A repetition with the same key, pet, quantity and \`If-Match\` writes nothing
and gets the first response again, for a day at least. It belongs to the API key; a refused update leaves it free.`,
      schema: { type: 'string', pattern: IDEMPOTENCY_KEY.source },
    }),
    ApiBody({ type: InventoryUpdate, description: 'The new stock.' }),
    ApiResponse({
      status: 200,
      description:
        'The item as the update made it. The change is committed; every list from then on shows it or a later one.',
      headers: {
        ...REQUEST_ID,
        ...entityTag('The tag of the item as the update made it.', ITEM_TAG),
        'Idempotent-Replayed': {
          description: 'There when the update took place at an earlier request with the same `Idempotency-Key`.',
          schema: { type: 'string', enum: ['true'] },
        },
      },
      type: InventoryItem,
      example: ITEM,
    }),
    FailsWith({
      ...ANY_REQUEST,
      bad_request: {
        message: IF_MATCH_RULE,
        description: 'The request breaks a rule that `message` names. Nothing was written.',
      },
      validation_failed: { message: `${QUANTITY_RULE}.` },
      forbidden: { message: lacksScope('inventory:write') },
      not_found: { description: 'The requested resource could not be found.' },
      idempotency_key_reused: {},
      precondition_failed: { headers: entityTag('The tag of the item as it is.', '"available-9"') },
      payload_too_large: { message: BODY_TOO_LARGE },
      unsupported_media_type: {},
      service_unavailable: {
        description: `\`service_unavailable\`: nothing was written, try again. \`outcome_unknown\`: ${ERRORS.outcome_unknown.message}`,
      },
      outcome_unknown: {},
    }),
  );
}
