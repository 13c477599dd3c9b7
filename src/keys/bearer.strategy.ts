import { hash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { StrategyCreated } from 'passport';
import { Strategy, type VerifyFunctionWithRequest } from 'passport-http-bearer';
import { PrismaService } from '../prisma.service.ts';
import { ApiError } from '../errors/api-error.ts';
import { headerValues } from '../lib/http/index.ts';
import { Settings } from '../settings.ts';
import type { CheckedKey } from './checked-key.ts';
import { KeyCheck, NO_KEY } from './key-check.ts';
import type { Scope } from './scopes.ts';

const REALM = 'inventory';

/** RFC 6750 section 3. */
export const challenge = (error: string) => ({ 'WWW-Authenticate': `Bearer realm="${REALM}"${error}` });

/** The strategy takes one blank behind the scheme; RFC 9110 section 11.4 allows several. */
const withOneBlank = (authorization: string) => authorization.replace(/^(bearer) {2,}/i, '$1 ');

type Bearer = Strategy<VerifyFunctionWithRequest>;

/** What the strategy sees: only the header, because it would also take a token from the query or the body. */
interface Presented extends Request {
  readonly deadline: number;
  readonly needed: Scope | undefined;
}

/** passport-http-bearer's strategy, by passport's contract (`success`, `fail`, `error`) but without its framework. */
@Injectable()
export class BearerStrategy {
  readonly #strategy: Bearer;

  constructor(keyCheck: KeyCheck, prisma: PrismaService, { BOOTSTRAP_API_KEY: bootstrapKey }: Settings) {
    const bootstrapDigest = bootstrapKey && hash('sha256', bootstrapKey);
    this.#strategy = new Strategy({ passReqToCallback: true }, (presented, token, done) => {
      const { deadline, needed } = presented as Presented;
      const digest = hash('sha256', token);
      const checked =
        needed === 'metrics:read'
          ? keyCheck.checkForMetrics(digest, deadline)
          : keyCheck.check(digest, deadline, needed === 'inventory:write');
      checked.then((key) => {
        const isNotYetStored = key.failure === 'unknown_key' && digest === bootstrapDigest && !prisma.isPrepared;
        if (isNotYetStored) done(new ApiError('service_unavailable', 'The key is not stored yet.'));
        else done(null, key);
      }, done);
    });
  }

  /** The key of the request, or why it has none that is good. @throws what the key check failed with */
  authenticate(request: Request, deadline: number, needed: Scope | undefined): Promise<CheckedKey> {
    const [authorization, ...others] = headerValues(request, 'authorization').map(withOneBlank);
    return new Promise((resolve, reject) => {
      const attempt = Object.create(this.#strategy) as StrategyCreated<Bearer>;
      attempt.success = (key) => resolve(key as CheckedKey);
      attempt.error = reject;
      attempt.fail = () => {
        const isBearer = [authorization, ...others].some((value = '') => /^bearer( |$)/i.test(value));
        resolve({ ...NO_KEY, failure: isBearer ? 'malformed_header' : 'no_key' });
      };
      if (others.length > 0) attempt.fail();
      else attempt.authenticate({ headers: { authorization }, deadline, needed } as Presented);
    });
  }
}
