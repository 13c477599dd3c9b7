import { Controller, Get, Param, Patch, Req, Res } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { RequireScope } from '../auth/auth.guard.js';
import { JsonBody } from '../http/json-body.js';
import type { GuardedRequest } from '../http/request-context.js';
import { RequestHeader } from '../http/request-headers.js';
import { API_PREFIX } from '../settings.js';
import { type InventoryItem, InventoryUpdate } from './inventory.dto.js';
import {
  ChangeReasonPipe,
  IdempotencyKeyPipe,
  type IfMatch,
  IfMatchPipe,
  NoIfNoneMatchPipe,
  PetIdPipe,
} from './inventory.pipes.js';
import { ListInventoryDocs, UpdateInventoryDocs } from './inventory-openapi.js';
import { Inventory } from './inventory.js';
import { ListResponses } from './list-responses.js';
import { itemTag } from './stock-item.js';

@ApiTags('Inventory')
@Controller(`${API_PREFIX}/inventory`)
export class InventoryController {
  constructor(
    private readonly inventory: Inventory,
    private readonly lists: ListResponses,
  ) {}

  /**
   * The guard has read the snapshot with the key: a list may be sent again if nothing was committed since it was
   * read. It goes out as bytes, by `@Res()`, instead of being serialized for each response.
   */
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
    @RequestHeader('idempotency-key', IdempotencyKeyPipe) idempotencyKey: string | null,
    @RequestHeader('change-reason', ChangeReasonPipe) reason: string | null,
    @RequestHeader('if-match', IfMatchPipe) ifMatch: IfMatch | null,
    @RequestHeader('if-none-match', NoIfNoneMatchPipe) _: undefined,
    @JsonBody() { quantity }: InventoryUpdate,
    @Req() { id: requestId, access, bodyMs = 0 }: GuardedRequest,
    @Res({ passthrough: true }) response: Response,
  ): Promise<InventoryItem> {
    const { tags = null, mismatchMessage } = ifMatch ?? {};
    const author = { changedBy: `key:${access.keyId}`, requestId, reason };
    const update = { petId, quantity, ifMatch: tags, mismatchMessage, idempotencyKey, ...author };
    const deadline = access.deadline + bodyMs; // the client's own time does not count
    const { item, outcome } = await this.inventory.setQuantity(update, deadline);
    response.set({ ETag: `"${itemTag(item)}"`, 'Cache-Control': 'no-store' });
    if (outcome === 'replayed') response.set('Idempotent-Replayed', 'true');
    return item;
  }
}
