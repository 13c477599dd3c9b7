import { ApiError } from '../errors/api-error.ts';
import { entityTags } from '../lib/http/index.ts';

export const IF_MATCH_RULE = 'If-Match must be * or a list of entity tags in double quotes, such as "available-12".';

/** @throws ApiError `bad_request` if the field is malformed, because a 412 would claim that the stock has changed */
export function ifMatchTags(field: string): NonNullable<ReturnType<typeof entityTags>> {
  const tags = entityTags(field);
  if (tags === undefined) throw new ApiError('bad_request', IF_MATCH_RULE);
  return tags;
}
