/** What every client reports of the same five calls: it lists, updates, repeats that, updates from the old state, and reads an Error. */
export interface Outcome {
  readonly list: readonly { petId: number; quantity: number; status: 'available' | 'pending' | 'sold' }[];
  readonly updated: Outcome['list'][number];
  readonly repeated: Outcome['updated'];
  readonly replayed: string | null;
  readonly changed: string;
  readonly code: string;
  readonly status: number;
}

export const url = setting('INVENTORY_URL');
export const key = setting('INVENTORY_KEY');

export function report(outcome: Outcome): void {
  console.log(JSON.stringify(outcome));
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}
