import type { Connection } from './request-turns.js';

/**
 * Bounds the number of connections. At the bound, a new one replaces the connection that has shown no good key and that
 * got its last response longest ago, or none since it came. Bytes that a client sends do not count: slow ones would hold it.
 * A connection with a good key never yields: while there are no others, new connections are closed as they come.
 */
export class OpenConnections {
  /** In the order in which they yield. */
  readonly #withoutKey = new Set<Connection>();
  readonly #withKey = new Set<Connection>();

  constructor(private readonly most: number) {}

  admit(socket: Connection): void {
    socket.openConnections = this;
    this.#withoutKey.add(socket);
    socket.once('close', () => this.#withoutKey.delete(socket) || this.#withKey.delete(socket));
    if (this.#withoutKey.size + this.#withKey.size <= this.most) return;
    const [longest = socket] = this.#withoutKey;
    this.#withoutKey.delete(longest);
    longest.destroy();
  }

  /** Its key is good, or being checked. */
  protect(socket: Connection): void {
    if (this.#withoutKey.delete(socket)) this.#withKey.add(socket);
  }

  /** Its key is not good. */
  unprotect(socket: Connection): void {
    if (this.#withKey.delete(socket)) this.#withoutKey.add(socket);
  }

  responded(socket: Connection): void {
    if (this.#withoutKey.delete(socket)) this.#withoutKey.add(socket);
  }
}
