import type { ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { Settings } from '../settings.js';
import { ApiError } from '../errors/api-error.js';

const WINDOW_S = 60;
/** From here on, windows that are over are looked for when a key comes anew. */
const MANY_KEYS = 1_000;

interface Window {
  /** On the clock of `performance.now()`. */
  readonly endsAt: number;
  left: number;
}

/**
 * How many requests a key may make in a minute, counted from its first. Each process counts for itself: behind a
 * balancer a key can have the limit once per process. A limit of 0 is none, and costs nothing.
 */
@Injectable()
export class RateLimit {
  readonly #limit: number;
  readonly #windows = new Map<string, Window>();

  constructor(settings: Settings) {
    this.#limit = settings.RATE_LIMIT_PER_MINUTE;
  }

  /**
   * Counts a request, and tells the client what is left (draft-ietf-httpapi-ratelimit-headers).
   *
   * @throws ApiError `too_many_requests`
   */
  charge(keyId: string, response: ServerResponse): void {
    if (this.#limit === 0) return;
    const now = performance.now();
    const window = this.#windowOf(keyId, now);
    // At most the window: the difference of two large numbers may come out a hair longer.
    const secondsLeft = Math.min(WINDOW_S, Math.ceil((window.endsAt - now) / 1_000));
    const refused = window.left === 0;
    if (!refused) window.left--;
    response.setHeader('RateLimit-Policy', `"key";q=${this.#limit};w=${WINDOW_S}`);
    response.setHeader('RateLimit', `"key";r=${window.left};t=${secondsLeft}`);
    if (refused) {
      const message = `The API key has made its ${this.#limit} requests of this minute.`;
      throw new ApiError('too_many_requests', message, { 'Retry-After': String(secondsLeft) });
    }
  }

  #windowOf(keyId: string, now: number): Window {
    const present = this.#windows.get(keyId);
    if (present && present.endsAt > now) return present;
    if (this.#windows.size >= MANY_KEYS) {
      for (const [id, { endsAt }] of this.#windows) if (endsAt <= now) this.#windows.delete(id);
    }
    const window = { endsAt: now + WINDOW_S * 1_000, left: this.#limit };
    this.#windows.set(keyId, window);
    return window;
  }
}
