import type { ApiRequest } from './request-context.ts';
import type { Connection } from './connection.ts';
import type { Limits } from './limits.ts';

/**
 * Bounds the number of connections. At the bound, each new one closes an unauthorized one: the one that came, or got
 * its last unauthorized response, longest ago. The client's bytes do not count, because a slow client would keep its
 * place with them. A connection is authorized from the moment the guard lets a request in until the end of its
 * response, and then for as long as an idle connection may live. If all are, the new connection closes.
 */
export class OpenConnections {
  /** In the order in which the unauthorized ones yield. */
  readonly #open = new Set<Connection>();

  constructor(private readonly limits: Limits) {}

  admit(socket: Connection): void {
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
    if (this.#open.size > this.limits.connections) this.#closeLongestUnauthorized();
  }

  /** Whether a client still lacks some of its response. */
  isAnswering(): boolean {
    return [...this.#open].some(({ lastRequest }) => lastRequest && !lastRequest.res?.writableFinished);
  }

  /** After an authorized response the place in the queue stays: `isAuthorizedUntil` protects the connection meanwhile. */
  responded({ socket, access }: ApiRequest): void {
    if (access?.isAuthorized) (socket as Connection).isAuthorizedUntil = performance.now() + this.limits.idleMs;
    else if (this.#open.delete(socket)) this.#open.add(socket);
  }

  /** The new connection is unauthorized, so there is one. */
  #closeLongestUnauthorized(): void {
    const now = performance.now();
    for (const socket of this.#open) {
      if (socket.lastRequest?.access?.isAuthorized || (socket.isAuthorizedUntil ?? 0) > now) continue;
      this.#open.delete(socket);
      socket.destroy();
      return;
    }
  }
}
