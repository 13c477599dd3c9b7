import { Controller, Get, Param, Patch, Req, Res } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { RequireScope } from '../auth/auth.guard.js';
import { API_PREFIX } from '../http/api-prefix.js';
import type { ApiRequest } from '../http/api-request.js';
import { readJsonBody } from '../http/json-body.js';
import { readIdempotencyKey } from './idempotency-key.js';
import { readIfMatch } from './if-match.js';
import { itemAsJson, itemTag } from './inventory-item.dto.js';
import { ListInventoryDocs, UpdateInventoryDocs } from './inventory.openapi.js';
import { InventoryService } from './inventory.service.js';
import { InventoryUpdate } from './inventory-update.dto.js';
import { ListResponses } from './list-response.js';
import { PetIdPipe } from './pet-id.pipe.js';

@ApiTags('Inventory')
@Controller(`${API_PREFIX}/inventory`)
export class InventoryController {
  constructor(
    private readonly inventory: InventoryService,
    private readonly lists: ListResponses,
  ) {}

  @Get()
  @RequireScope('inventory:read')
  @ListInventoryDocs()
  async listInventory(@Req() request: ApiRequest, @Res() response: Response): Promise<void> {
    const list = await this.inventory.list(request.moment, request.arrivedAt);
    await this.lists.send(request, response, list);
  }

  @Patch(':petId')
  @RequireScope('inventory:write')
  @UpdateInventoryDocs()
  async updateInventory(
    @Param('petId', PetIdPipe) petId: bigint,
    @Req() request: ApiRequest,
    @Res() response: Response,
  ): Promise<void> {
    const ifMatch = readIfMatch(request.headers['if-match']);
    const idempotencyKey = readIdempotencyKey(request.headers['idempotency-key']);
    const { quantity } = await readJsonBody(request, response, InventoryUpdate);
    const { item, outcome } = await this.inventory.setQuantity(
      {
        petId,
        quantity,
        ifMatch: ifMatch,
        changedBy: `key:${request.keyId}`,
        idempotencyKey,
        requestId: request.id,
      },
      request.deadline,
    );
    const body = itemAsJson(item);
    response.writeHead(200, {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': body.length,
      'Cache-Control': 'no-store',
      ETag: `"${itemTag(item)}"`,
      ...(outcome === 'replayed' && { 'Idempotent-Replayed': 'true' }),
    });
    response.end(body, 'latin1');
  }
}
