import type { ClientSocket } from '../http/request-context.js';

/**
 * Bounds the number of connections. At the bound, a new one replaces another: first one whose first key was refused, then one
 * without a good key, which came or got its last response longest ago. The client's bytes do not count, because a slow client
 * would keep its place with them. A connection whose first key is being checked yields last. One with a good key never yields:
 * if all have one, new connections are closed as they come.
 */
export class OpenConnections {
  /** Each set is in the order in which its connections yield. */
  readonly #refused = new Set<ClientSocket>();
  readonly #withoutKey = new Set<ClientSocket>();
  readonly #inCheck = new Set<ClientSocket>();
  readonly #withKey = new Set<ClientSocket>();
  readonly #all = [this.#refused, this.#withoutKey, this.#inCheck, this.#withKey];

  constructor(private readonly most: number) {}

  admit(socket: ClientSocket): void {
    socket.openConnections = this;
    this.#withoutKey.add(socket);
    socket.once('close', () => this.#remove(socket));
    if (this.#all.reduce((sum, { size }) => sum + size, 0) <= this.most) return;
    // Few without a key among many checks have just come: they would yield before the service has read their requests.
    const others = this.#withoutKey.size > this.#inCheck.size ? this.#withoutKey : this.#inCheck;
    const [yielding = socket] = this.#refused.size > 0 ? this.#refused : others;
    this.#remove(yielding);
    yielding.destroy();
  }

  /** Another key gives a refused connection no better place, unless it is good. */
  checking(socket: ClientSocket): void {
    if (this.#withoutKey.delete(socket)) this.#inCheck.add(socket);
  }

  /** @param isGood undefined if the check failed */
  checked(socket: ClientSocket, isGood: boolean | undefined): void {
    if (isGood) {
      if (!this.#withKey.has(socket) && this.#remove(socket)) this.#withKey.add(socket);
    } else if (this.#inCheck.delete(socket)) {
      (isGood === false ? this.#refused : this.#withoutKey).add(socket);
    } else if (isGood === false && this.#withKey.delete(socket)) {
      this.#withoutKey.add(socket); // a proxy sends the keys of many clients on one connection
    }
  }

  responded(socket: ClientSocket): void {
    if (this.#withoutKey.delete(socket)) this.#withoutKey.add(socket);
  }

  #remove(socket: ClientSocket): boolean {
    return this.#all.some((some) => some.delete(socket));
  }
}
