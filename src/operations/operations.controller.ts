import { Controller, Get, Header, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Response } from 'express';
import { Public, RequireScope } from '../keys/auth.guard.ts';
import { ApiError } from '../errors/api-error.ts';
import { Metrics } from './metrics.ts';
import { Readiness } from './readiness.ts';

const OK = { status: 'ok' };

@ApiExcludeController()
@Controller()
export class OperationsController {
  constructor(
    private readonly readiness: Readiness,
    private readonly metrics: Metrics,
  ) {}

  /** Never touches the database: a slow database is no reason to restart the service. */
  @Get('health/live')
  @Public()
  @Header('Cache-Control', 'no-store')
  live(): typeof OK {
    return OK;
  }

  @Get('health/ready')
  @Public()
  @Header('Cache-Control', 'no-store')
  async ready(): Promise<typeof OK> {
    const obstacle = await this.readiness.obstacle();
    if (obstacle !== undefined) throw new ApiError('service_unavailable', obstacle);
    return OK;
  }

  @Get('metrics')
  @RequireScope('metrics:read')
  @Header('Cache-Control', 'no-store')
  scrape(@Res({ passthrough: true }) response: Response): Promise<string> {
    const { registry } = this.metrics;
    response.type(registry.contentType);
    return registry.metrics();
  }
}
