import { Injectable, type PipeTransform } from '@nestjs/common';
import { ApiError } from '../errors/api-error.ts';
import { SAFE_NAME_RULE, isSafeName } from '../safe-text.ts';
import { ifMatchTags } from './entity-tags.ts';
import { isPetId, MAX_PET_ID, MIN_PET_ID } from './item-limits.ts';

/** Any int64 in canonical decimal, as a bigint throughout. */
@Injectable()
export class PetIdPipe implements PipeTransform<string, bigint> {
  transform(text: string): bigint {
    if (isPetId(text)) return BigInt(text);
    throw new ApiError(
      'validation_failed',
      `petId must be an integer from ${MIN_PET_ID} to ${MAX_PET_ID} in canonical decimal form.`,
    );
  }
}

/** The tags of pets have no other characters, and PostgreSQL cannot read all others in every encoding. */
const PRINTABLE = /^[!-~]*$/;

/** The tags of which a pet must have one; null with `*`. Weak tags never match (RFC 9110 section 13.1.1). */
@Injectable()
export class IfMatchPipe implements PipeTransform<string | undefined, string[] | null> {
  transform(field: string | undefined): string[] | null {
    if (field === undefined) return null;
    const tags = ifMatchTags(field);
    if (tags === '*') return null;
    return tags.filter((tag) => !tag.weak && PRINTABLE.test(tag.opaque)).map((tag) => tag.opaque);
  }
}

/** An update that ignored this field would write what the client forbade (RFC 9110 section 13.1.2). */
@Injectable()
export class NoIfNoneMatchPipe implements PipeTransform<string | undefined, undefined> {
  transform(field: string | undefined): undefined {
    if (field === undefined) return;
    throw new ApiError('bad_request', 'An update takes If-Match, not If-None-Match: nothing was written.');
  }
}

export class SafeNamePipe implements PipeTransform<string | undefined, string | null> {
  constructor(private readonly header: 'Change-Reason' | 'Idempotency-Key') {}

  transform(field: string | undefined): string | null {
    if (field === undefined) return null;
    // A key is bare, or quoted as a string of RFC 9651 section 3.3.3.
    const name = this.header === 'Idempotency-Key' ? field.replace(/^"(.*)"$/, '$1') : field;
    if (isSafeName(name)) return name;
    throw new ApiError('bad_request', `${this.header} must be ${SAFE_NAME_RULE}.`);
  }
}
