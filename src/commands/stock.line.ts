import { PetStatus } from '../generated/prisma/enums.js';
import type { Problems } from './problems.js';

/** The members of a stock line, in the order in which export writes them. */
export const MEMBERS = ['petId', 'quantity', 'status'] as const;
export type Member = (typeof MEMBERS)[number];

/** One pet as a file has it: the members' texts, undefined where one is missing, and the line to blame. */
export type StockLine = { readonly line: number } & Readonly<Record<Member, string | undefined>>;

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
const QUANTITY_MAX = 2_147_483_647;
const STATUSES: ReadonlySet<string> = new Set(Object.keys(PetStatus));

const RULES: Readonly<Record<Member, { holds: (text: string) => boolean; rule: string }>> = {
  petId: { holds: isInt64, rule: `must be an integer from ${INT64_MIN} to ${INT64_MAX}, in plain digits` },
  quantity: { holds: isQuantity, rule: `must be an integer from 0 to ${QUANTITY_MAX}` },
  status: { holds: (text) => STATUSES.has(text), rule: `must be one of ${[...STATUSES].join(', ')}` },
};

/** Notes every rule that a line breaks; true when it keeps them all. */
export function checkLine(line: StockLine, problems: Problems): boolean {
  let sound = true;
  for (const member of MEMBERS) {
    const text = line[member];
    if (text !== undefined && RULES[member].holds(text)) continue;
    problems.add(line.line, `${member} ${text === undefined || text === '' ? 'is missing' : RULES[member].rule}`);
    sound = false;
  }
  return sound;
}

/** Canonical decimal only, so that each pet has one way to be written; exact, because it never becomes a number. */
export function isInt64(text: string): boolean {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return false;
  if (text.length < 19) return true;
  const value = BigInt(text);
  return value >= INT64_MIN && value <= INT64_MAX;
}

function isQuantity(text: string): boolean {
  return /^(?:0|[1-9]\d{0,9})$/.test(text) && Number(text) <= QUANTITY_MAX;
}
