import { type DynamicModule, Global, type MiddlewareConsumer, Module, type NestModule } from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import type { Express } from 'express';
import { AuthModule } from './auth/auth.module.js';
import { DatabaseModule } from './database/prisma.service.js';
import { Settings } from './settings.js';
import { ErrorFilter } from './http/error.filter.js';
import { InventoryExpressAdapter } from './http/express.adapter.js';
import { exactIntegers, setCommonHeaders } from './http/responses.js';
import { InventoryModule } from './inventory/inventory.module.js';
import { OperationsModule } from './operations/operations.module.js';

/** The table of contents. */
@Global()
@Module({
  imports: [DatabaseModule, AuthModule, InventoryModule, OperationsModule],
  providers: [{ provide: APP_FILTER, useClass: ErrorFilter }],
  exports: [Settings],
})
export class AppModule implements NestModule {
  constructor(private readonly host: HttpAdapterHost) {}

  static with(settings: Settings): DynamicModule {
    return { module: AppModule, providers: [{ provide: Settings, useValue: settings }] };
  }

  /** What our own adapter does by itself, and more quickly, an application with Nest's gets from a middleware. */
  configure(consumer: MiddlewareConsumer): void {
    const { httpAdapter } = this.host;
    if (httpAdapter instanceof InventoryExpressAdapter) return;
    httpAdapter.getInstance<Express>().set('json replacer', exactIntegers);
    consumer.apply(setCommonHeaders).forRoutes('{*path}');
  }
}
