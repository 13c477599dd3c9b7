import { type DynamicModule, Global, Module, type OnModuleInit } from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import type { Application } from 'express';
import { AuthModule } from './auth/auth.module.js';
import { DatabaseModule } from './database/prisma.service.js';
import { ErrorFilter } from './http/error.filter.js';
import { exactIntegers } from './http/exact-integers.js';
import { InventoryModule } from './inventory/inventory.module.js';
import { OperationsModule } from './operations/operations.module.js';
import { Settings } from './settings.js';

@Global()
@Module({
  imports: [DatabaseModule, AuthModule, InventoryModule, OperationsModule],
  providers: [{ provide: APP_FILTER, useClass: ErrorFilter }],
  exports: [Settings],
})
export class AppModule implements OnModuleInit {
  constructor(private readonly host: HttpAdapterHost) {}

  static with(settings: Settings): DynamicModule {
    return { module: AppModule, providers: [{ provide: Settings, useValue: settings }] };
  }

  /** For Nest's own adapter: its JSON, too, has all digits of a petId. */
  onModuleInit(): void {
    this.host.httpAdapter.getInstance<Application>().set('json replacer', exactIntegers);
  }
}
