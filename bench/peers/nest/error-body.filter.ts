import { Catch, HttpException, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Response } from 'express';

@Catch()
export class ErrorBodyFilter implements ExceptionFilter {
  catch(cause: unknown, host: ArgumentsHost): void {
    const status = cause instanceof HttpException ? cause.getStatus() : 500;
    const message = cause instanceof HttpException ? cause.message : 'Failed';
    host
      .switchToHttp()
      .getResponse<Response>()
      .status(status)
      .json({ code: `http_${status}`, message, status });
  }
}
