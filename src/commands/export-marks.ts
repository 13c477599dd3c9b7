import { ITEM, itemTagOf } from '../inventory/item.ts';

/** The last line of CSV and NDJSON says whether something is missing. No line of a pet looks like these. */
export const END_MARK = '# end';
export const FAILED_MARK = '# failed';

/** The column or member of `export --editable`: which pet a row was made from, and from which state of it. */
export const EXPORTED = 'exported';

/** SQL for {@link EXPORTED}. Its last colon shows that it is whole; with it, it is text to every spreadsheet. */
export const exportedOf = (row: string) => `${row}.${ITEM.petId.column} || ':' || ${itemTagOf(row)} || ':'`;
