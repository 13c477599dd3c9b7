import { type DynamicModule, Global, Module, type OnModuleInit } from '@nestjs/common';
import { APP_FILTER, HttpAdapterHost } from '@nestjs/core';
import type { Application } from 'express';
import { AuthModule } from './keys/auth.module.ts';
import { PrismaService } from './prisma.service.ts';
import { ErrorFilter } from './errors/error.filter.ts';
import { REQUEST_ID_RULE } from './lib/http/index.ts';
import { exactIntegers } from './lib/http/json.ts';
import { isSafeName } from './safe-text.ts';
import { InventoryModule } from './inventory/inventory.module.ts';
import { OperationsModule } from './operations/operations.module.ts';
import { Settings } from './settings.ts';

@Global()
@Module({
  imports: [AuthModule, InventoryModule, OperationsModule],
  providers: [PrismaService, { provide: APP_FILTER, useClass: ErrorFilter }],
  exports: [Settings, PrismaService],
})
export class AppModule implements OnModuleInit {
  constructor(private readonly host: HttpAdapterHost) {}

  static with(settings: Settings): DynamicModule {
    return { module: AppModule, providers: [{ provide: Settings, useValue: settings }] };
  }

  /** Express knows them also on Nest's own adapter. */
  onModuleInit(): void {
    const app = this.host.httpAdapter.getInstance<Application>();
    app.set('json replacer', exactIntegers); // JSON has all digits of a petId
    app.set(REQUEST_ID_RULE, isSafeName);
  }
}
