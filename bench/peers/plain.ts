// The peer "NestJS + Prisma": this very application with Prisma's own calls in the place of its kept list and its batched updates.
import { Test } from '@nestjs/testing';
import { AppModule } from '../../src/app.module.ts';
import { ListCache } from '../../src/inventory/list-cache.ts';
import { QuantityUpdates } from '../../src/inventory/quantity-updates.ts';
import { readSettings } from '../../src/settings.ts';
import { PlainList, PlainUpdates } from '../../test/support/plain-inventory.ts';

const settings = readSettings();
const module = await Test.createTestingModule({ imports: [AppModule.with(settings)] })
  .overrideProvider(ListCache)
  .useClass(PlainList)
  .overrideProvider(QuantityUpdates)
  .useClass(PlainUpdates)
  .compile();
await module.createNestApplication({ logger: false }).listen(settings.PORT, settings.HOST);
