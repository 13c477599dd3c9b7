import { describe, expect, it } from 'vitest';
import { JsonArrayScanner } from './json-array.scanner.js';

function scan(pieces: string[]) {
  const scanner = new JsonArrayScanner(100);
  const items = pieces.flatMap((piece) => scanner.scan(piece));
  return { items, fault: scanner.fault ?? scanner.faultAtEnd() };
}

describe('the items of a JSON array', () => {
  const text = ' [\n{"a": "]},\\"{["},\r\n {"b": [1, {"c": 2}]} ,{}]\n';
  const items = [
    { text: '{"a": "]},\\"{["}', line: 2 },
    { text: '{"b": [1, {"c": 2}]}', line: 3 },
    { text: '{}', line: 3 },
  ];

  it('are found whole, wherever the text is cut', () => {
    for (let cut = 0; cut <= text.length; cut++) {
      expect(scan([text.slice(0, cut), text.slice(cut)])).toEqual({ items, fault: undefined });
    }
    expect(scan(text.match(/[^]/g) ?? [])).toEqual({ items, fault: undefined });
  });

  it('may be none', () => {
    expect(scan([' [ ] '])).toEqual({ items: [], fault: undefined });
  });

  it.each([
    ['', 'a JSON array is missing'],
    ['{}', 'must be one JSON array of objects'],
    ['[{}', 'the JSON array is never closed'],
    ['[{', 'the JSON array is never closed'],
    ['[1]', 'an item of the array must be a JSON object'],
    ['[{},]', 'an item of the array must be a JSON object'],
    ['[,{}]', 'an item of the array must be a JSON object'],
    ['[{}{}]', 'a comma or the end of the array is missing'],
    ['[{}]]', 'something follows the end of the array'],
    [`[{"a":"${'x'.repeat(200)}`, 'an item is longer than 100 characters'],
  ])('%j: %s', (broken, fault) => {
    expect(scan([broken]).fault).toBe(fault);
  });
});
