import { Controller, Get, Header, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Response } from 'express';
import { RequireScope } from '../auth/auth.guard.js';
import { Metrics } from './metrics.js';

@ApiExcludeController()
@Controller('metrics')
export class MetricsController {
  constructor(private readonly metrics: Metrics) {}

  @Get()
  @RequireScope('metrics:read')
  @Header('Cache-Control', 'no-store')
  scrape(@Res({ passthrough: true }) response: Response): Promise<string> {
    const { registry } = this.metrics;
    response.type(registry.contentType);
    return registry.metrics();
  }
}
