import { Injectable, type PipeTransform } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import { KEY_PREFIX } from '../http/api-request.js';

export const IDEMPOTENCY_KEY = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Reads an `Idempotency-Key` field, bare or quoted as a string of RFC 9651 section 3.3.3. One that looks like an API key
 * is refused: it would go into the history.
 *
 * @returns null when there is none
 * @throws ApiError `bad_request`
 */
@Injectable()
export class IdempotencyKeyPipe implements PipeTransform<string | undefined, string | null> {
  transform(field: string | undefined): string | null {
    if (field === undefined) return null;
    const key = field.replace(/^"(.*)"$/, '$1');
    if (!IDEMPOTENCY_KEY.test(key) || key.includes(KEY_PREFIX)) {
      throw new ApiError('bad_request', 'Idempotency-Key must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -.');
    }
    return key;
  }
}
