import { Injectable, type PipeTransform } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import { ENTITY_TAG_LIST, entityTags } from '../http/entity-tags.js';

export const IF_MATCH_RULE = 'If-Match must be * or a list of entity tags in double quotes, such as "available-12".';

/** No pet's tag has another character, and PostgreSQL cannot take each one in every encoding. */
const PRINTABLE = /^[!-~]*$/;

/**
 * The tags of which a pet must have one before it is updated; null when any state will do. `If-Match: *` asks for a pet that
 * exists, as every update does. Weak tags never match (RFC 9110 section 13.1.1).
 *
 * @throws ApiError `bad_request` for what is no such list: a 412 would claim that the stock has changed
 */
@Injectable()
export class IfMatchPipe implements PipeTransform<string | undefined, readonly string[] | null> {
  transform(field: string | undefined): readonly string[] | null {
    if (field === undefined) return null;
    if (!ENTITY_TAG_LIST.test(field)) throw new ApiError('bad_request', IF_MATCH_RULE);
    const tags = entityTags(field);
    return tags === '*' ? null : tags.filter((tag) => !tag.weak && PRINTABLE.test(tag.opaque)).map((tag) => tag.opaque);
  }
}
