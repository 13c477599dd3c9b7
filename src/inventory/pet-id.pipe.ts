import { Injectable, type PipeTransform } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import { isPetId, MAX_PET_ID, MIN_PET_ID } from './stock.limits.js';

/** Any int64 in canonical decimal, as a bigint throughout. */
@Injectable()
export class PetIdPipe implements PipeTransform<string, bigint> {
  /** @throws ApiError `validation_failed` */
  transform(text: string): bigint {
    if (isPetId(text)) return BigInt(text);
    throw new ApiError(
      'validation_failed',
      `petId must be an integer from ${MIN_PET_ID} to ${MAX_PET_ID} in canonical decimal form.`,
    );
  }
}
