import { PetStatus } from '../../src/generated/prisma/enums.ts';
import type { InventoryItem } from '../../src/inventory/inventory.dto.ts';
import { MEMBERS } from '../../src/inventory/item.ts';

/** A pet's row; ids as text or bigint where a JavaScript number would round them. */
export type Pet = readonly [petId: number | bigint | string, quantity: number, status?: PetStatus];

const byId = ([one]: Pet, [other]: Pet) => (BigInt(one) < BigInt(other) ? -1 : 1);

/** Pets of tests have these three members. Any other member is null in them. */
const NO_MEMBERS: unknown = Object.fromEntries(MEMBERS.map(({ name }) => [name, null]));
const NULLS = NO_MEMBERS as Readonly<Record<keyof InventoryItem, never>>;

/** A pet's item. */
export function itemOf(petId: bigint, quantity: number, status: PetStatus = PetStatus.available): InventoryItem {
  return { ...NULLS, petId, quantity, status };
}

/** The list that the service gives of these pets and no others. */
export function listText(...pets: readonly Pet[]): string {
  const items = pets.toSorted(byId).map((pet) => itemText(...pet));
  return `[${items.join()}]`;
}

/** A pet in the list, or in the answer to its update. */
export function itemText(petId: Pet[0], quantity: number, status: PetStatus = PetStatus.available): string {
  return JSON.stringify({ ...NULLS, petId: JSON.rawJSON(String(petId)), quantity, status });
}

/** The header of files that tests import. They leave out any other member, which an import takes. */
export const CSV_HEADER = 'petId,quantity,status\n';

/** What an export has in each line for the other members, which are null. */
const OTHERS = ','.repeat(MEMBERS.length - 3);

/** The export of pets, which are lines as below {@link CSV_HEADER}. */
export function exportedCsv(pets = ''): string {
  return `${MEMBERS.map(({ name }) => name).join()}\n${pets.replaceAll('\n', `${OTHERS}\n`)}`;
}

/** The pets of an export. */
export function petsOf(exported: string): string {
  return exported.slice(exportedCsv().length).replaceAll(`${OTHERS}\n`, '\n');
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
