import { hash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { Strategy, type VerifyFunctionWithRequest } from 'passport-http-bearer';
import { type Admission, KeyCheck, type Snapshot } from './key-check.js';

/** Why a request was not let in. For the log alone: to the caller all of them look the same. */
export const AUTH_FAILURES = ['no_key', 'malformed_header', 'unknown_key', 'expired_key', 'revoked_key'] as const;
export type Refusal = (typeof AUTH_FAILURES)[number];

export class NotAdmitted extends Error {
  constructor(
    readonly refusal: Refusal,
    readonly keyId?: string,
  ) {
    super(refusal);
  }
}

/** A request that is let in. */
export interface Admitted {
  readonly keyId: string;
  readonly scopes: readonly string[];
  readonly moment: Snapshot;
}

/** What passport calls on a strategy while it authenticates one request. */
interface Attempt {
  success(admission: Admission): void;
  fail(challenge: string | number): void;
  error(reason: unknown): void;
}

/**
 * passport-http-bearer's strategy, run without the passport framework around it.
 *
 * The strategy would also take a token from the body and the query; it is shown the header alone.
 */
@Injectable()
export class BearerStrategy {
  readonly #strategy: Strategy<VerifyFunctionWithRequest>;

  constructor(admission: KeyCheck) {
    this.#strategy = new Strategy({ realm: 'inventory', passReqToCallback: true }, ((
      { deadline }: { deadline: number },
      token: string,
      done: (error: unknown, admission?: Admission) => void,
    ) => {
      admission.admit(hash('sha256', token), deadline).then((admitted) => {
        done(null, admitted);
      }, done);
    }) as never);
  }

  /**
   * @param header the `Authorization` header, if the request has exactly one
   * @param deadline on the clock of `performance.now()`
   * @throws NotAdmitted, or ApiError `service_unavailable`
   */
  authenticate(header: string | undefined, deadline: number): Promise<Admitted> {
    return new Promise((resolve, reject) => {
      const attempt = Object.assign(Object.create(this.#strategy) as Strategy<VerifyFunctionWithRequest> & Attempt, {
        success: ({ verdict, moment }: Admission) => {
          if (verdict.state === 'live') resolve({ keyId: verdict.keyId, scopes: verdict.scopes, moment });
          else if (verdict.state === 'unknown') reject(new NotAdmitted('unknown_key'));
          else reject(new NotAdmitted(`${verdict.state}_key`, verdict.keyId));
        },
        fail: () => {
          reject(new NotAdmitted(/^bearer( |$)/i.test(header ?? '') ? 'malformed_header' : 'no_key'));
        },
        error: reject,
      });
      attempt.authenticate({ headers: { authorization: header }, deadline } as never);
    });
  }
}
