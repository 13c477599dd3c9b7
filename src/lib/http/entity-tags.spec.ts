import { describe, expect, it } from 'vitest';
import { entityTags } from './entity-tags.ts';

const strong = (opaque: string) => ({ weak: false, opaque });
const weak = (opaque: string) => ({ weak: true, opaque });

describe('entity tags', () => {
  it.each([
    ['*', '*'],
    ['*, "a"', undefined],
    ['', undefined],
    ['x', undefined],
    ['""', [strong('')]],
    ['"a"', [strong('a')]],
    ['W/"a"', [weak('a')]],
    ['w/"a"', undefined],
    ['W/ "a"', undefined],
    ['x"a"', undefined],
    ['"a"x', undefined],
    ['"a" "b"', undefined],
    [' , "a" ,, "b",', [strong('a'), strong('b')]],
    ['"a", W/"b" ,"c"', [strong('a'), weak('b'), strong('c')]],
    ['\t"a"\t,\t"b"\t', [strong('a'), strong('b')]],
    ['"!#~\x80\xff"', [strong('!#~\x80\xff')]],
    ['"\x7f"', undefined],
    ['"a,b"', [strong('a,b')]],
    ['"*"', [strong('*')]],
    ['"a b"', undefined],
    ['"a', undefined],
  ])('of %s are %j', (field, expected) => {
    expect(entityTags(field)).toEqual(expected);
  });
});
