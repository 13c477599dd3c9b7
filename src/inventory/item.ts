import { PetStatus } from '../generated/prisma/enums.ts';
import type { InventoryItem } from './inventory.dto.ts';
import { isPetId, MAX_PET_ID, MAX_QUANTITY, MIN_PET_ID, QUANTITY_FORM } from './item-limits.ts';

interface Member {
  /** In inventory_item; stock_change has it with `_before` and with `_after`. */
  readonly column: string;
  /** How JSON writes it. */
  readonly isString: boolean;
  /** The rule in words: the member must be … */
  readonly rule: string;
  /** Whether a text follows the rule. */
  readonly isValid: (text: string) => boolean;
}

const STATUSES = Object.keys(PetStatus);

/** The members of an item, in the order in which lists and exports write them. */
export const ITEM = {
  petId: {
    column: 'pet_id',
    isString: false,
    rule: `an integer from ${MIN_PET_ID} to ${MAX_PET_ID}, in plain digits without thousands separators`,
    isValid: isPetId,
  },
  quantity: {
    column: 'quantity',
    isString: false,
    rule: `${QUANTITY_FORM}, without thousands separators`,
    isValid: (text) => /^(0|[1-9]\d{0,9})$/.test(text) && Number(text) <= MAX_QUANTITY,
  },
  status: {
    column: 'status',
    isString: true,
    rule: `one of ${STATUSES.join(', ')}`,
    isValid: (text) => STATUSES.includes(text),
  },
} as const satisfies Readonly<Record<keyof InventoryItem, Member>>;

export const MEMBERS: readonly (Member & { readonly name: string })[] = Object.entries(ITEM).map(([name, member]) => ({
  name,
  ...member,
}));

/** What an item says of its pet: all members but the petId. */
export const STATE = MEMBERS.filter(({ name }) => name !== 'petId');

/** The entity tag of an item, unquoted. It is made of what the list shows, so a client can write it by itself. */
export function itemTag({ quantity, status }: { quantity: number | string; status: string }): string {
  return `${status}-${quantity}`;
}
