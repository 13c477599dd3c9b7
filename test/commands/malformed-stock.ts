import type { Format } from '../../src/commands/stock-file.ts';

/** A file of stock with one fault, and what the command has to say of it. */
export interface MalformedFile {
  readonly format: Format;
  readonly text: string;
  readonly problem: string;
}

type Texts = Readonly<Record<string, string>>;
type Fault = readonly [problem: string, spoil: (pet: Texts) => Texts | string];

const petIdRule = 'petId must be an integer from -9223372036854775808 to 9223372036854775807, in plain digits';
const quantityRule = 'quantity must be an integer from 0 to 2147483647';
const quoteRule = 'has a quote that does not stand around a whole field';
const statusRule = 'status must be one of available, pending, sold';

const set = (member: string, value: string) => (pet: Texts) => ({ ...pet, [member]: value });
const without = (member: string) => (pet: Texts) =>
  Object.fromEntries(Object.entries(pet).filter(([name]) => name !== member));
const instead = (text: string) => () => text;

const badNumbers = ['abc', '-0', '+5', '01', '0x10', '1e3', '1.0', ' 5', '5 ', '1_000', '٣', 'NaN', '1,5'];
const badPetIds = [...badNumbers, '9223372036854775808', '-9223372036854775809', '9'.repeat(30)];
const badQuantities = [...badNumbers, '-1', '2147483648', '99999999999999999999'];
const badStatuses = ['Available', 'SOLD', 'gone', ' sold', 'sold ', '0', 'available,sold'];

const csvFaults: Fault[] = [
  ...badPetIds.map((value): Fault => [petIdRule, set('petId', value)]),
  ...badQuantities.map((value): Fault => [quantityRule, set('quantity', value)]),
  ...badStatuses.map((value): Fault => [statusRule, set('status', value)]),
  ...['petId', 'quantity', 'status'].map((member): Fault => [`${member} is missing`, set(member, '')]),
  ['has 4 fields where the header has 3', instead('5,5,sold,')],
  ['has 2 fields where the header has 3', instead('5,5')],
  ['has 1 field where the header has 3', instead('5;5;sold')],
  ...['"5"5,5,sold', '5"5,5,sold', '"5,5,sold', '5,"5""",sold'].map((line): Fault => [quoteRule, instead(line)]),
];

/** As JSON values: quoted where the CSV text would be a string. */
const itemFaults: Fault[] = [
  ...[
    '"5"',
    'null',
    'true',
    '[5]',
    '{}',
    '1.0',
    '1e3',
    '-0',
    '9223372036854775808',
    '-9223372036854775809',
    '1e999',
  ].map((value): Fault => [petIdRule, set('petId', value)]),
  ...['"5"', 'null', 'false', '[5]', '{}', '1.5', '-1', '2147483648', '1e999', '0.1e0'].map((value): Fault => [
    quantityRule,
    set('quantity', value),
  ]),
  ...['"Sold"', '""', 'null', '1', '["sold"]', '"gone"'].map((value): Fault => [
    value === '""' ? 'status is missing' : statusRule,
    set('status', value),
  ]),
  ...['petId', 'quantity', 'status'].map((member): Fault => [`${member} is missing`, without(member)]),
  ['member "name" is unknown', set('name', '"Rex"')],
  ['member "__proto__" is unknown', instead('{"petId":5,"quantity":5,"status":"sold","__proto__":1}')],
  ['must be a JSON object', instead('[5,5,"sold"]')],
  ['must be a JSON object', instead('5')],
  ['has a member twice, or a colon in a value', instead('{"petId":5,"petId":6,"quantity":5,"status":"sold"}')],
  ...[
    '{"petId":05,"quantity":5,"status":"sold"}',
    "{'petId':5,'quantity':5,'status':'sold'}",
    '{"petId":5,"quantity":5,"status":"sold",}',
    '{"petId":5,"quantity":5,"status":"sold"} {}',
  ].map((text): Fault => ['is not valid JSON', instead(text)]),
];

/** How an array tells of a fault for which it does not know the item. */
const arrayProblems = new Map<string, (items: number) => string>([
  ['is not valid JSON', () => 'the file is not valid JSON'],
  [
    'has a member twice, or a colon in a value',
    (items) => `item ${items}: or an item before has a member twice, or a colon in a value`,
  ],
]);

/** Faults of the whole: they do not lie in one pet's line. */
const wholeFaults: MalformedFile[] = [
  { format: 'csv', text: '', problem: 'line 1: the header petId,quantity,status is missing' },
  { format: 'csv', text: '5,5,sold\n', problem: 'line 1: column petId is missing in the header' },
  { format: 'csv', text: 'petId,quantity\n5,5\n', problem: 'line 1: column status is missing in the header' },
  {
    format: 'csv',
    text: 'petId,petId,quantity,status\n',
    problem: 'line 1: column petId is there twice in the header',
  },
  { format: 'csv', text: 'petId,quantity,status,name\n', problem: 'line 1: column "name" is unknown' },
  { format: 'ndjson', text: '5,5,sold\n', problem: 'line 1: is not valid JSON' },
  ...['', '[\n', '[{}]]'].map((text) => ({ format: 'json' as const, text, problem: 'the file is not valid JSON' })),
  { format: 'json', text: '{}', problem: 'the file must be one JSON array of objects' },
];

/**
 * Files that are sound but for one fault in a random place, with random line ends and BOM: each fault of each format at
 * least once, `count` in all.
 *
 * @param random from 0 to below 1, seeded so that a failure can be repeated
 */
export function malformedFiles(count: number, random: () => number): MalformedFile[] {
  const kinds = [
    ...csvFaults.map((fault) => ({ format: 'csv' as const, fault })),
    ...itemFaults.flatMap((fault) => (['ndjson', 'json'] as const).map((format) => ({ format, fault }))),
  ];
  const files = [...wholeFaults];
  for (let at = 0; files.length < count || at < kinds.length; at++) {
    const kind = kinds[at % kinds.length];
    if (kind) files.push(withOneFault(kind.format, kind.fault, random));
  }
  return files;
}

function withOneFault(format: Format, [problem, spoil]: Fault, random: () => number): MalformedFile {
  const pets = Array.from({ length: 2 + Math.floor(random() * 60) }, (_, at) => ({
    petId: String(10 * at - 100),
    quantity: String(Math.floor(random() * 2 ** 31)),
    status: ['available', 'pending', 'sold'][Math.floor(random() * 3)] ?? '',
  }));
  const at = Math.floor(random() * pets.length);
  const records = pets.map((pet, index) => {
    const members = format === 'csv' ? pet : { ...pet, status: JSON.stringify(pet.status) };
    const spoilt = index === at ? spoil(members) : members;
    return typeof spoilt === 'string' ? spoilt : write(format, spoilt);
  });
  const lineEnd = random() < 0.5 ? '\n' : '\r\n';
  const lines = {
    csv: ['petId,quantity,status', ...records],
    ndjson: records,
    json: ['[', records.join(`,${lineEnd}`), ']'],
  };
  const bom = random() < 0.5 ? '\ufeff' : '';
  const place = { csv: `line ${at + 2}`, ndjson: `line ${at + 1}`, json: `item ${at + 1}` }[format];
  const told = format === 'json' ? arrayProblems.get(problem)?.(pets.length) : undefined;
  return { format, text: bom + lines[format].join(lineEnd) + lineEnd, problem: told ?? `${place}: ${problem}` };
}

function write(format: Format, members: Texts): string {
  const entries = Object.entries(members);
  if (format !== 'csv') return `{${entries.map(([name, value]) => `"${name}":${value}`).join(',')}}`;
  return entries.map(([, value]) => (value.includes(',') ? `"${value}"` : value)).join(',');
}
