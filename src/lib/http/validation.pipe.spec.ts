import 'reflect-metadata';
import { IsInt, IsString, Max } from 'class-validator';
import { expect, it } from 'vitest';
import { bodyValidation } from './validation.pipe.ts';

class Label {
  @IsString()
  text: unknown = 'a';

  @IsInt({ message: 'an integer' })
  @Max(99, { message: 'at most 99' })
  size: unknown = 1;
}

it.each([
  [{ text: 5 }, 'text must be a string, but is a number.'],
  [{ size: 'x' }, 'size must be an integer, but is a text.'],
  [{ size: 100 }, 'size must be at most 99, but is larger (3 digits).'],
  [{ size: -Infinity }, 'size must be an integer, but is a number.'],
])('the first rule that %j breaks gives the message its form', async (body, message) => {
  await expect(bodyValidation.transform(body, { type: 'body', metatype: Label })).rejects.toThrow(message);
});
