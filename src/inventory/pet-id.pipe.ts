import { Injectable, type PipeTransform } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import { MAX_PET_ID, MIN_PET_ID } from './inventory-item.dto.js';

const CANONICAL = /^(?:0|-?[1-9]\d{0,18})$/;

/** Any int64 in canonical decimal; it never passes through a JavaScript number. */
@Injectable()
export class PetIdPipe implements PipeTransform<string, bigint> {
  /** @throws ApiError `validation_failed` */
  transform(text: string): bigint {
    if (CANONICAL.test(text)) {
      const petId = BigInt(text);
      if (petId >= MIN_PET_ID && petId <= MAX_PET_ID) return petId;
    }
    throw new ApiError(
      'validation_failed',
      `petId must be an integer from ${MIN_PET_ID} to ${MAX_PET_ID} in canonical decimal form.`,
    );
  }
}
