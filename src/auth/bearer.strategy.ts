import { hash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { StrategyCreated } from 'passport';
import { Strategy, type VerifyFunctionWithRequest } from 'passport-http-bearer';
import { PrismaService } from '../database/prisma.service.js';
import { ApiError } from '../errors/api-error.js';
import type { ApiRequest } from '../http/request-context.js';
import { headerValues } from '../http/request-headers.js';
import { Settings } from '../settings.js';
import { type CheckedKey, KeyCheck } from './key-check.js';
import type { Scope } from './scopes.js';

const REALM = 'inventory';

/** RFC 6750 section 3. */
export const challenge = (error: string) => ({ 'WWW-Authenticate': `Bearer realm="${REALM}"${error}` });

type Bearer = Strategy<VerifyFunctionWithRequest>;

/** What the strategy sees: only the header, because it would also take a token from the query or the body. */
interface Presented extends Request {
  readonly context: ApiRequest;
  readonly needed: Scope | undefined;
}

/** passport-http-bearer's strategy, by passport's contract (`success`, `fail`, `error`) but without its framework. */
@Injectable()
export class BearerStrategy {
  readonly #strategy: Bearer;

  constructor(keyCheck: KeyCheck, prisma: PrismaService, { BOOTSTRAP_API_KEY: bootstrapKey }: Settings) {
    const bootstrapDigest = bootstrapKey && hash('sha256', bootstrapKey);
    this.#strategy = new Strategy({ passReqToCallback: true }, (presented, token, done) => {
      const { context, needed } = presented as Presented;
      const digest = hash('sha256', token);
      const checked =
        needed === 'metrics:read'
          ? keyCheck.checkReader(digest, context.deadline)
          : keyCheck.check(digest, context.deadline, needed === 'inventory:write');
      checked.then((key) => {
        if (key.failure === 'unknown_key' && digest === bootstrapDigest && !prisma.isPrepared) {
          done(new ApiError('service_unavailable', 'The key is not stored yet.'));
          return;
        }
        context.keyId = key.keyId;
        context.authFailure = key.failure;
        done(null, key.failure === undefined && key);
      }, done);
    });
  }

  /** @throws ApiError `unauthorized` with a challenge (RFC 6750 section 3), or what the key check failed with */
  authenticate(request: ApiRequest, needed: Scope | undefined): Promise<CheckedKey> {
    const [authorization, ...others] = headerValues(request, 'authorization');
    return new Promise((resolve, reject) => {
      const attempt = Object.create(this.#strategy) as StrategyCreated<Bearer>;
      attempt.success = (key) => resolve(key as CheckedKey);
      attempt.error = reject;
      attempt.fail = () => {
        const isBearer = [authorization, ...others].some((value = '') => /^bearer( |$)/i.test(value));
        request.authFailure ??= isBearer ? 'malformed_header' : 'no_key';
        const error = request.authFailure === 'no_key' ? '' : ', error="invalid_token"';
        reject(new ApiError('unauthorized', undefined, challenge(error)));
      };
      if (others.length > 0) attempt.fail();
      else attempt.authenticate({ headers: { authorization }, context: request, needed } as Presented);
    });
  }
}
