import type { ClientSocket } from '../http/request-context.js';

/**
 * Bounds the number of connections. At the bound, a new one replaces another: of those that have shown no good key, the one
 * that came or got its last response longest ago. The client's bytes do not count, because a slow client would keep its place
 * with them. A connection whose first key is being checked yields last. One with a good key never yields: if all have one, new
 * connections are closed as they come.
 */
export class OpenConnections {
  /** In the order in which they yield. */
  readonly #withoutKey = new Set<ClientSocket>();
  readonly #inCheck = new Set<ClientSocket>();
  readonly #withKey = new Set<ClientSocket>();

  constructor(private readonly most: number) {}

  admit(socket: ClientSocket): void {
    socket.openConnections = this;
    this.#withoutKey.add(socket);
    const all = [this.#withoutKey, this.#inCheck, this.#withKey];
    socket.once('close', () => all.some((some) => some.delete(socket)));
    if (all.reduce((sum, { size }) => sum + size, 0) <= this.most) return;
    const [longest = socket] = this.#withoutKey;
    const [inCheck = socket] = this.#inCheck;
    const yielding = longest === socket ? inCheck : longest;
    for (const some of all) some.delete(yielding);
    yielding.destroy();
  }

  checking(socket: ClientSocket): void {
    if (this.#withoutKey.delete(socket)) this.#inCheck.add(socket);
  }

  checked(socket: ClientSocket, isGood: boolean): void {
    if (isGood) {
      if (this.#inCheck.delete(socket)) this.#withKey.add(socket);
    } else if (this.#inCheck.delete(socket) || this.#withKey.delete(socket)) this.#withoutKey.add(socket);
  }

  responded(socket: ClientSocket): void {
    if (this.#withoutKey.delete(socket)) this.#withoutKey.add(socket);
  }
}
