import { ApiProperty } from '@nestjs/swagger';
import { PetStatus } from '../generated/prisma/enums.js';

/** The largest quantity: what PostgreSQL's `integer` holds. */
export const MAX_QUANTITY = 2_147_483_647;

/**
 * A stock entry, section 2 of the specification. It is written as JSON text by PostgreSQL or by
 * {@link itemAsJson}, never by `JSON.stringify`: `petId` is an int64 and has to keep every digit.
 */
export class InventoryItem {
  @ApiProperty({
    type: 'integer',
    format: 'int64',
    description: 'Identifier of the animal this entry tracks. Larger than what JavaScript holds as a number.',
    example: 42,
  })
  petId!: bigint;

  @ApiProperty({ type: 'integer', minimum: 0, maximum: MAX_QUANTITY, description: 'Current stock count.', example: 12 })
  quantity!: number;

  @ApiProperty({
    enum: PetStatus,
    enumName: 'PetStatus',
    description: 'Availability of the pet.',
    example: 'available',
  })
  status!: PetStatus;
}

export function itemAsJson({ petId, quantity, status }: InventoryItem): string {
  return `{"petId":${petId},"quantity":${quantity},"status":"${status}"}`;
}

/** The entity tag of an item, unquoted. Whoever has the list can write it. */
export function itemTag({ quantity, status }: Pick<InventoryItem, 'quantity' | 'status'>): string {
  return `${status}-${quantity}`;
}
