import { ApiProperty, ApiSchema, type ApiSchemaOptions } from '@nestjs/swagger';
import { IsInt, Max, Min } from 'class-validator';
import { MAX_QUANTITY } from './stock.limits.js';

/** One message for every way to break the rule. */
export const QUANTITY_RULE = `quantity must be an integer from 0 to ${MAX_QUANTITY}`;
const RULE = { message: QUANTITY_RULE };

/** The body of an update (docs/interface.md, section 2). */
@ApiSchema({ description: 'What to set.', additionalProperties: false } as ApiSchemaOptions)
export class InventoryUpdate {
  @ApiProperty({
    type: 'integer',
    minimum: 0,
    maximum: MAX_QUANTITY,
    description: 'The new stock count.',
    example: 12,
  })
  @IsInt(RULE)
  @Min(0, RULE)
  @Max(MAX_QUANTITY, RULE)
  quantity!: number;
}
