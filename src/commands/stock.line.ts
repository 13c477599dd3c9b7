import { PetStatus } from '../generated/prisma/enums.js';
import { isPetId, MAX_PET_ID, MAX_QUANTITY, MIN_PET_ID } from '../inventory/stock.limits.js';
import { type Problems, quote } from './problems.js';

/** The members of a stock line, in the order in which export writes them. */
export const MEMBERS = ['petId', 'quantity', 'status'] as const;
export type Member = (typeof MEMBERS)[number];

/** One pet as a file has it: the members' texts, undefined where one is missing, and the line to blame. */
export type StockLine = { readonly line: number } & Readonly<Record<Member, string | undefined>>;

const STATUSES: ReadonlySet<string> = new Set(Object.keys(PetStatus));

const RULES: Readonly<Record<Member, { holds: (text: string) => boolean; rule: string }>> = {
  petId: { holds: isPetId, rule: `must be an integer from ${MIN_PET_ID} to ${MAX_PET_ID}, in plain digits` },
  quantity: { holds: isQuantity, rule: `must be an integer from 0 to ${MAX_QUANTITY}` },
  status: { holds: (text) => STATUSES.has(text), rule: `must be one of ${[...STATUSES].join(', ')}` },
};

/** Notes every rule that a line breaks, with the value and its pet; true when it keeps them all. */
export function checkLine(line: StockLine, problems: Problems): boolean {
  let sound = true;
  for (const member of MEMBERS) {
    const text = line[member];
    if (text !== undefined && RULES[member].holds(text)) continue;
    const fault = text === undefined || text === '' ? 'is missing' : `${RULES[member].rule}, not ${quote(text)}`;
    const pet = member === 'petId' || !isPetId(line.petId ?? '') ? '' : ` (pet ${line.petId})`;
    problems.add(line.line, `${member} ${fault}${pet}`);
    sound = false;
  }
  return sound;
}

function isQuantity(text: string): boolean {
  return /^(?:0|[1-9]\d{0,9})$/.test(text) && Number(text) <= MAX_QUANTITY;
}
