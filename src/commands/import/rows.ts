import { itemTag, ITEM, MEMBERS } from '../../inventory/item.ts';
import { isPetId } from '../../inventory/item-limits.ts';
import { EXPORTED } from '../export.ts';
import { quote } from '../output.ts';
import { type Fault, Problems, type Unit } from './problems.ts';

/** What is known of a file once it is read, besides its rows. */
export class StockFile {
  unit: Unit = 'line';
  /** How many are sound. */
  rows = 0;
  readonly problems = new Problems();
  /** Whether rows say what they were made from. */
  hasExported = false;
  /** The newest change that the export had, by the end mark. */
  newest?: { readonly id: string; readonly at: string };
}

/** What `exported` says of a row: it adds a pet, or is unedited. Otherwise the item tag that was exported. */
export const EXPORTED_TAG = { new: 'new', unedited: 'same' } as const;

/** A sound row in CSV: the members, {@link EXPORTED_TAG}. */
export type Reading = string | readonly Fault[];

/** As texts, in the order of the members; empty where one is missing. */
export interface RawRow {
  readonly members: readonly string[];
  /** Without one, a pet of the store keeps its own. */
  readonly hasStatus: boolean;
  /** Undefined where the row has no such column or member. */
  readonly exported: string | undefined;
  /** The numbers of JSON are beyond doubt. */
  readonly isJson: boolean;
}

/** Reads strictly first, because nearly all rows are sound. */
export function readRow({ members, hasStatus, exported, isJson }: RawRow): Reading {
  const isSound = (text: string, at: number) =>
    MEMBERS[at]?.isValid(text) === true || (!hasStatus && MEMBERS[at]?.name === 'status');
  const isPlain = members.every(isSound);
  const trimmed = isPlain ? members : members.map(trimBlanks);
  const texts = isPlain
    ? members
    : trimmed.map((text, at) => (MEMBERS[at]?.isString ? text : plainDigits(text, isJson)));
  const [written = ''] = trimmed;
  const [petId = '', quantity = '', status = ''] = texts;
  const origin = exported === undefined ? undefined : originOf(exported);
  const isOrigin = typeof origin === 'object';
  const matchesExport = isOrigin && (petId === origin.petId || isRoundedFrom(written, petId, origin.petId));
  const hasPet = matchesExport || (isSound(petId, 0) && (written === petId || !hasManyDigits(petId)));
  const whose = hasPet ? ` (pet ${matchesExport ? origin.petId : petId})` : '';
  const faults: Fault[] = [];
  if (!isPlain)
    for (const [at, member] of MEMBERS.entries())
      if (at === 0 ? !hasPet : !isSound(texts[at] ?? '', at))
        faults.push({ kind: kindOf(member, trimmed[at] ?? ''), text: `${ruleOf(member, trimmed[at] ?? '')}${whose}` });
  if (hasPet && isOrigin && !matchesExport) {
    const text = `petId is ${petId}, but ${EXPORTED} is of pet ${origin.petId}: was one column sorted alone?`;
    faults.push({ kind: EXPORTED, text });
  }
  if (origin === 'broken') {
    const rule = `${EXPORTED} must be as the export wrote it, or empty for a new pet`;
    faults.push({ kind: EXPORTED, text: `${rule}, not ${quote(exported ?? '')}${whose}` });
  }
  if (faults.length > 0) return faults;
  if (!isOrigin) return `${texts.map(csvField).join()},${origin ?? ''}`;
  const exportedTag = isUnedited(origin.tag, quantity, status) ? EXPORTED_TAG.unedited : origin.tag;
  return `${[origin.petId, ...texts.slice(1)].map(csvField).join()},${exportedTag}`;
}

type Member = (typeof MEMBERS)[number];

const ruleOf = ({ name, rule }: Member, text: string) =>
  text === '' ? `${name} is missing` : `${name} must be ${rule}, not ${quote(text)}`;

const kindOf = (member: Member, text: string) =>
  member === MEMBERS[0] && hasManyDigits(text) ? 'digits' : member.name;

/** Whether a text may have lost digits to rounding. */
const hasManyDigits = (text: string) => /^-?\d{16}|^[-\d.,]+e/i.test(text);

/** What {@link EXPORTED} says of a row. */
function originOf(exported: string): { petId: string; tag: string } | typeof EXPORTED_TAG.new | 'broken' {
  const text = trimBlanks(exported);
  if (text === '') return EXPORTED_TAG.new;
  const [, petId = '', tag = ''] = /^([^:]+):([^:]+):$/.exec(text) ?? [];
  const at = tag.lastIndexOf('-');
  const isTag = ITEM.status.isValid(tag.slice(0, Math.max(0, at))) && ITEM.quantity.isValid(tag.slice(at + 1));
  return isPetId(petId) && isTag ? { petId, tag } : 'broken';
}

/** Whether a row still says what its tag says. @param status empty where the row leaves it out */
function isUnedited(tag: string, quantity: string, status: string): boolean {
  return status === '' ? tag.endsWith(`-${quantity}`) : tag === itemTag({ quantity, status });
}

/** A long petId as a spreadsheet leaves it: it keeps 15 digits. */
export const ROUNDED = /^-?\d{15}0+$/;

/**
 * Whether a program may have made a petId of the one in {@link EXPORTED}. A spreadsheet keeps 15 digits, or those that
 * it shows, cut off or rounded; JavaScript keeps a double.
 */
function isRoundedFrom(written: string, plain: string, petId: string): boolean {
  const [mantissa = '', exponent] = written.split(/e/i);
  if (exponent === undefined && !ROUNDED.test(plain)) return plain === String(Number(petId));
  const digits = exponent === undefined ? 15 : Math.min(mantissa.replace(/\D/g, '').length || 1, 17);
  const rounded = (id: string) => Number(id).toPrecision(digits);
  const cut = petId.slice(0, petId.startsWith('-') ? 16 : 15).padEnd(petId.length, '0');
  return [petId, cut].some((id) => rounded(id) === rounded(plain));
}

/** The text without the blanks at its ends, also without invisible ones of web pages and word processors. */
const WITHIN = /[^\s\p{Z}\p{Cf}](?:[^]*[^\s\p{Z}\p{Cf}])?/u;
export const trimBlanks = (text: string) => WITHIN.exec(text)?.[0] ?? '';

/**
 * A whole number that is written with a fraction of zero or an exponent, in plain digits. Any other text stays as it
 * is; so does `12.000`, which is 12 for some people and 12000 for others.
 */
function plainDigits(text: string, isJson: boolean): string {
  const [, sign, whole, dot, fraction = '', exponent] =
    /^(-?)(0|[1-9]\d*)(?:([.,])(\d*))?(?:e([+-]?\d{1,3}))?$/i.exec(text) ?? [];
  if (whole === undefined || (!isJson && exponent === undefined && (!dot || isInDoubt(whole, fraction)))) return text;
  const shift = Number(exponent ?? 0) - fraction.length;
  const digits = BigInt(whole + fraction);
  const unit = 10n ** BigInt(Math.abs(shift));
  if (shift < 0 && digits % unit !== 0n) return text;
  const size = shift < 0 ? digits / unit : digits * unit;
  return String(sign ? -size : size);
}

/** Three digits behind a point or comma may be thousands. */
const isInDoubt = (whole: string, fraction: string) => fraction.length === 3 && /^[1-9]\d{0,2}$/.test(whole);

const csvField = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
