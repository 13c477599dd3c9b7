// The program of the peer "NestJS + Prisma", put together as the guides of the two show it.
import type { NestExpressApplication } from '@nestjs/platform-express';
import { ValidationPipe } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import '../exact-bigint.js';
import { ErrorBodyFilter } from './error-body.filter.js';
import { InventoryModule } from './inventory.module.js';

const app = await NestFactory.create<NestExpressApplication>(InventoryModule);
app.useLogger(false);
app.disable('x-powered-by');
app.set('query parser', false);
app.set('etag', process.env['PEER_ETAG'] ? 'strong' : false);
app.setGlobalPrefix('v1');
app.useGlobalPipes(new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true }));
app.useGlobalFilters(new ErrorBodyFilter());
await app.listen(Number(process.env['PORT']), '127.0.0.1');
