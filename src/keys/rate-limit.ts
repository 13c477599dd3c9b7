import type { ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { Settings } from '../settings.ts';
import { ApiError } from '../errors/api-error.ts';

const WINDOW_S = 60;

/** How many requests a key may make of this process in a minute, counted from its first. A limit of 0 is none. */
@Injectable()
export class RateLimit {
  readonly #windows = new Map<string, { readonly endsAt: number; left: number }>();

  constructor(private readonly settings: Settings) {}

  /** Counts a request, and sends what is left to the client (draft-ietf-httpapi-ratelimit-headers). */
  charge(keyId: string, response: ServerResponse): void {
    const limit = this.settings.RATE_LIMIT_PER_MINUTE;
    if (limit === 0) return;
    const now = performance.now();
    let window = this.#windows.get(keyId);
    if (!window || window.endsAt <= now) {
      window = { endsAt: now + WINDOW_S * 1_000, left: limit };
      this.#windows.set(keyId, window);
    }
    // At most the window: the difference of two large numbers may come out slightly longer.
    const secondsLeft = Math.min(WINDOW_S, Math.ceil((window.endsAt - now) / 1_000));
    const refused = window.left === 0;
    if (!refused) window.left--;
    response.setHeader('RateLimit-Policy', `"key";q=${limit};w=${WINDOW_S}`);
    response.setHeader('RateLimit', `"key";r=${window.left};t=${secondsLeft}`);
    if (!refused) return;
    const message = `The API key has made its ${limit} requests of this minute.`;
    throw new ApiError('too_many_requests', message, { 'Retry-After': String(secondsLeft) });
  }
}
