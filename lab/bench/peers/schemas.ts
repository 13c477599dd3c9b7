/** JSON schemas of the published shapes, for Fastify and for ajv. */
export const item = {
  type: 'object',
  required: ['petId', 'quantity', 'status'],
  properties: {
    petId: { type: 'integer' },
    quantity: { type: 'integer' },
    status: { type: 'string' },
  },
} as const;

export const itemList = { type: 'array', items: item } as const;

export const update = {
  type: 'object',
  required: ['quantity'],
  additionalProperties: false,
  properties: { quantity: { type: 'integer', minimum: 0, maximum: 2_147_483_647 } },
} as const;

export const error = {
  type: 'object',
  required: ['code', 'message', 'status'],
  properties: { code: { type: 'string' }, message: { type: 'string' }, status: { type: 'integer' } },
} as const;
