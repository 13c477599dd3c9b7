import { describe, expect, it } from 'vitest';
import { arrayLiteral, statementNames } from './statement-connection.ts';

describe('statementNames', () => {
  const statementName = statementNames('shop');

  // A pooler gives the sessions of one process to another: what they call a statement must be the same.
  it('depends on nothing but the text', () => {
    expect(statementName({ sql: 'SELECT 2' })).toBe('shop_ebbb5b332060a3ede7047bd7528883b0');
    expect(statementName({ sql: 'SELECT 1' })).not.toBe(statementName({ sql: 'SELECT 2' }));
  });
});

it('arrayLiteral writes what PostgreSQL reads as these values', () => {
  expect(arrayLiteral(['', 'NULL', 'a, "b" \\"c\\', null, 0, -1n, false])).toBe(
    String.raw`{"","NULL","a, \"b\" \\\"c\\",NULL,0,-1,false}`,
  );
});
