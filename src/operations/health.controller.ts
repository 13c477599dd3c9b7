import { Controller, Get, Header } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { Public } from '../auth/auth.guard.js';
import { unavailable } from '../errors/api-error.js';
import { Readiness } from './readiness.js';

@ApiExcludeController()
@Controller('health')
export class HealthController {
  constructor(private readonly readiness: Readiness) {}

  /** Never touches the database: a slow database is no reason to restart the service. */
  @Get('live')
  @Public()
  @Header('Cache-Control', 'no-store')
  live(): { status: 'ok' } {
    return { status: 'ok' };
  }

  @Get('ready')
  @Public()
  @Header('Cache-Control', 'no-store')
  async ready(): Promise<{ status: 'ok' }> {
    const obstacle = await this.readiness.obstacle();
    if (obstacle !== undefined) throw unavailable(obstacle);
    return { status: 'ok' };
  }
}
