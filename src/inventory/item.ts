import { PetStatus } from '../generated/prisma/enums.ts';
import type { InventoryItem } from './inventory.dto.ts';
import { isPetId, MAX_PET_ID, MAX_QUANTITY, MIN_PET_ID, QUANTITY_FORM } from './item-limits.ts';

/** How JSON writes a value: as a number, or as a text without characters that JSON escapes. */
const NUMBER = { isString: false, quote: '' };
const WORD = { isString: true, quote: '"' };

interface Member {
  /** In inventory_item; stock_change has it with `_before` and with `_after`. */
  readonly column: string;
  /** The type in SQL. */
  readonly type: string;
  readonly json: typeof NUMBER;
  /** The rule in words: the member must be … */
  readonly rule: string;
  /**
   * Whether a text follows the rule. One that may be empty may be left out: a pet keeps its own, a new one has null.
   */
  readonly isValid: (text: string) => boolean;
}

const STATUSES = Object.keys(PetStatus);

/** The members of an item, in the order in which lists and exports write them. */
export const ITEM = {
  petId: {
    column: 'pet_id',
    type: 'bigint',
    json: NUMBER,
    rule: `an integer from ${MIN_PET_ID} to ${MAX_PET_ID}, in plain digits without thousands separators`,
    isValid: isPetId,
  },
  quantity: {
    column: 'quantity',
    type: 'integer',
    json: NUMBER,
    rule: `${QUANTITY_FORM}, without thousands separators`,
    isValid: (text) => /^(0|[1-9]\d{0,9})$/.test(text) && Number(text) <= MAX_QUANTITY,
  },
  status: {
    column: 'status',
    type: 'pet_status',
    json: WORD,
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

/** The columns that an update leaves as they are. Each is a text, or null. */
export const KEPT_COLUMNS = STATE.filter(({ name }) => name !== 'quantity');

/** A list for SQL: the form once for each member, with its column in place of each `#`. */
export function columns(form = '#', members = STATE): string {
  return members.map(({ column }) => form.replaceAll('#', column)).join(', ');
}

/** SQL for the columns of inventory_item, by the names of the members. */
export const ITEM_COLUMNS = MEMBERS.map(({ name, column }) => `${column} AS "${name}"`).join(', ');

/** SQL for an item as JSON. @param row what the statement calls the row of inventory_item */
export function itemJson(row: string): string {
  const members = MEMBERS.map(
    ({ name, column, json }) => `"${name}":${json.quote}' || ${row}.${column} || '${json.quote}`,
  );
  return `'{${members.join(',')}}'`;
}

/** The entity tag of an item, unquoted. It is made of what the list shows, so a client can write it by itself. */
export function itemTag({ quantity, status }: { quantity: number | string; status: string }): string {
  return `${status}-${quantity}`;
}

/** SQL for {@link itemTag}. @param suffix of the columns, as in `quantity_before` */
export function itemTagOf(row: string, suffix = ''): string {
  return `${row}.${ITEM.status.column}${suffix} || '-' || ${row}.${ITEM.quantity.column}${suffix}`;
}
