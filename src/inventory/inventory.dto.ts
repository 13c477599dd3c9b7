import { ApiProperty, ApiSchema, type ApiSchemaOptions } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { IsInt, Max, Min } from 'class-validator';
import { PetStatus } from '../generated/prisma/enums.ts';
import { MAX_PET_ID, MAX_QUANTITY, MIN_PET_ID, QUANTITY_FORM } from './item-limits.ts';

/** The bounds are bigints, so that the document can give every digit of them. */
export const PET_ID_SCHEMA = {
  type: 'integer',
  format: 'int64',
  minimum: MIN_PET_ID as unknown as number,
  maximum: MAX_PET_ID as unknown as number,
  example: 1,
} as const;

const QUANTITY_SCHEMA = { type: 'integer', minimum: 0, maximum: MAX_QUANTITY } as const;

/** A stock entry. `petId` is an int64; a JavaScript number could not keep all its digits. */
@ApiSchema({ description: 'The stock of one pet.' })
export class InventoryItem {
  @ApiProperty({ ...PET_ID_SCHEMA, description: 'Identifier of the animal that this entry tracks.' })
  petId!: bigint;

  @ApiProperty({ ...QUANTITY_SCHEMA, description: 'Current stock count.', example: 12 })
  quantity!: number;

  @ApiProperty({
    enum: PetStatus,
    enumName: 'PetStatus',
    enumSchema: { description: 'Availability of a pet. Read-only: setting a quantity never changes it.' },
  })
  status!: PetStatus;
}

/** One form for every way to break the rule; the pipe adds the member's name and what was found. */
const RULE = { message: QUANTITY_FORM };

/** The body of an update (docs/interface.md, section 2). */
@ApiSchema({ description: 'The new stock of a pet.', additionalProperties: false } as ApiSchemaOptions)
export class InventoryUpdate {
  @ApiProperty({ ...QUANTITY_SCHEMA, description: 'The new stock count.', example: 12 })
  @IsInt(RULE)
  @Min(0, RULE)
  @Max(MAX_QUANTITY, RULE)
  @Transform(({ value }: { value: unknown }) => (value === 0 ? 0 : value)) // JSON has a -0, and Prisma would send it
  quantity!: number;
}
