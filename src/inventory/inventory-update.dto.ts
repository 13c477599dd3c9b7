import { ApiProperty, ApiSchema, type ApiSchemaOptions } from '@nestjs/swagger';
import { IsInt, Max, Min } from 'class-validator';
import { MAX_QUANTITY } from './inventory-item.dto.js';

/** The body of an update, section 2 of the specification. */
@ApiSchema({ description: 'What to set.', additionalProperties: false } as ApiSchemaOptions)
export class InventoryUpdate {
  @ApiProperty({
    type: 'integer',
    minimum: 0,
    maximum: MAX_QUANTITY,
    description: 'The new stock count.',
    example: 12,
  })
  @IsInt()
  @Min(0)
  @Max(MAX_QUANTITY)
  quantity!: number;
}
