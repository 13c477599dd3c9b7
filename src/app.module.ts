import { type DynamicModule, Global, Module } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { AuthModule } from './auth/auth.module.js';
import { DatabaseModule } from './database/database.module.js';
import { Settings } from './settings.js';
import { ErrorFilter } from './errors/error.filter.js';
import { InventoryModule } from './inventory/inventory.module.js';
import { OperationsModule } from './operations/operations.module.js';

/** The table of contents. */
@Global()
@Module({
  imports: [DatabaseModule, AuthModule, InventoryModule, OperationsModule],
  providers: [{ provide: APP_FILTER, useClass: ErrorFilter }],
  exports: [Settings],
})
export class AppModule {
  /** @param settings the settings to run with */
  static with(settings: Settings): DynamicModule {
    return { module: AppModule, providers: [{ provide: Settings, useValue: settings }] };
  }
}
