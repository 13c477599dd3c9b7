import { Controller, Get, Param, Patch, Req, Res } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { RequireScope } from '../keys/auth.guard.ts';
import { JsonBody, RequestHeader } from '../lib/http/index.ts';
import type { GuardedRequest } from '../keys/access.ts';
import { API_PREFIX } from '../settings.ts';
import { type InventoryItem, InventoryUpdate } from './inventory.dto.ts';
import { IfMatchPipe, NoIfNoneMatchPipe, PetIdPipe, SafeNamePipe } from './inventory.pipes.ts';
import { ListInventoryDocs, UpdateInventoryDocs } from './inventory-openapi.ts';
import { Inventory } from './inventory.ts';
import { ListResponses } from './list/list-responses.ts';
import { itemTag } from './item.ts';

/**
 * The checks of an update in their order (docs/interface.md, section 4.2), and the files that make them. Of a list, they
 * are 1 to 3; then `list/list-responses.ts` compares its tags.
 *
 * 1. request line and headers: `lib/http/express.adapter.ts` (limits), `parser-errors.ts`, `request-head.ts`
 * 2. path and method: `lib/http/express.adapter.ts`, `methods.ts`
 * 3. key, its limit, its scope: `keys/auth.guard.ts`, which calls `bearer.strategy.ts`, `key-check.ts`, `rate-limit.ts`
 * 4. in any order, `petId` and headers: `inventory.pipes.ts`; body: `lib/http/json-body.ts`, then `inventory.dto.ts`
 * 5. `Idempotency-Key`: `outcomeOfFirstUse` in `inventory.service.ts`, or `known` in `fast/update-statement.ts`
 * 6. pet and `If-Match`: `applyUpdate`, or `is_accepted`, in the same two files
 * 7. the operator's own rules: PostgreSQL; then `isAsRequested`, or `as_requested`, in the same two files
 *
 * `update/update-outcomes.ts` makes Errors of what 5 and 6 find, and `database-errors.ts` of what 7 finds.
 */
@ApiTags('Inventory')
@Controller(`${API_PREFIX}/inventory`)
export class InventoryController {
  constructor(
    private readonly inventory: Inventory,
    private readonly lists: ListResponses,
  ) {}

  /** The list goes out as bytes, by `@Res()`: serialized once for all responses that share it, not for each. */
  @Get()
  @RequireScope('inventory:read')
  @ListInventoryDocs()
  async listInventory(@Req() request: GuardedRequest, @Res() response: Response): Promise<void> {
    const list = await this.inventory.list(request.access);
    await this.lists.send(request, response, list);
  }

  @Patch(':petId')
  @RequireScope('inventory:write')
  @UpdateInventoryDocs()
  async updateInventory(
    @Param('petId', PetIdPipe) petId: bigint,
    @RequestHeader('idempotency-key', new SafeNamePipe('Idempotency-Key')) idempotencyKey: string | null,
    @RequestHeader('change-reason', new SafeNamePipe('Change-Reason')) reason: string | null,
    @RequestHeader('if-match', IfMatchPipe) ifMatch: string[] | null,
    @RequestHeader('if-none-match', NoIfNoneMatchPipe) _: undefined,
    @JsonBody() { quantity }: InventoryUpdate,
    @Req() { id: requestId, access, bodyMs = 0 }: GuardedRequest,
    @Res({ passthrough: true }) response: Response,
  ): Promise<InventoryItem> {
    const author = { changedBy: `key:${access.keyId}`, requestId, reason };
    const update = { petId, quantity, ifMatch, idempotencyKey, ...author };
    const deadline = access.deadline + bodyMs; // the client's own time does not count
    const { item, outcome } = await this.inventory.setQuantity(update, deadline);
    response.set({ ETag: `"${itemTag(item)}"`, 'Cache-Control': 'no-store' });
    if (outcome === 'replayed') response.set('Idempotent-Replayed', 'true');
    return item;
  }
}
