/** What every client reports of the same four calls: it lists, updates twice from the same state, and reads an Error. */
export interface Outcome {
  readonly list: readonly { petId: number; quantity: number; status: 'available' | 'pending' | 'sold' }[];
  readonly updated: Outcome['list'][number];
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
