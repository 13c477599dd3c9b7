import { describe, expect, it } from 'vitest';
import { IfMatchPipe } from './inventory.pipes.ts';

describe('If-Match', () => {
  it('asks for the strong tags that a pet can have', () => {
    expect(new IfMatchPipe().transform('"!", "\xe4", W/"a", "~"')).toEqual(['!', '~']);
  });
});
