import { PetStatus } from '../../src/generated/prisma/enums.ts';

/** A pet's row; ids as text or bigint where a JavaScript number would round them. */
export type Pet = readonly [petId: number | bigint | string, quantity: number, status?: PetStatus];

const byId = ([one]: Pet, [other]: Pet) => (BigInt(one) < BigInt(other) ? -1 : 1);

/** The list that the service gives of these pets and no others. */
export function listText(...pets: readonly Pet[]): string {
  const items = pets.toSorted(byId).map((pet) => itemText(...pet));
  return `[${items.join()}]`;
}

/** A pet in the list, or in the answer to its update. */
export function itemText(petId: Pet[0], quantity: number, status: PetStatus = PetStatus.available): string {
  return `{"petId":${petId},"quantity":${quantity},"status":"${status}"}`;
}

/** Adds pets past the service, or sets those that are there: a statement and its arguments. */
export function stockStatement(pets: readonly Pet[]): [statement: string, args: unknown[]] {
  return [
    `INSERT INTO inventory_item (pet_id, quantity, status)
     SELECT * FROM unnest($1::bigint[], $2::int[], $3::pet_status[])
     ON CONFLICT (pet_id) DO UPDATE SET quantity = excluded.quantity, status = excluded.status`,
    [0, 1, 2].map((at) => pets.map(([petId, quantity, status = 'available']) => [String(petId), quantity, status][at])),
  ];
}
