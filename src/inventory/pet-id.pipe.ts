import { Injectable, type PipeTransform } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';

const CANONICAL = /^(?:0|-?[1-9]\d{0,18})$/;
const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

/** Any int64 in canonical decimal; it never passes through a JavaScript number. */
@Injectable()
export class PetIdPipe implements PipeTransform<string, bigint> {
  /** @throws ApiError `validation_failed` */
  transform(text: string): bigint {
    if (CANONICAL.test(text)) {
      const petId = BigInt(text);
      if (petId >= MIN && petId <= MAX) return petId;
    }
    throw new ApiError(
      'validation_failed',
      `petId must be an integer from ${MIN} to ${MAX} in canonical decimal form.`,
    );
  }
}
