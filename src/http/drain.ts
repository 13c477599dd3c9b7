import type { Server } from 'node:http';
import { Server as TcpServer } from 'node:net';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Settings } from '../settings.js';

/** A busy client sends its next request within this, and that response tells it to close. */
const IDLE_GRACE_MS = 1_000;
const POLL_MS = 100;
/** Where new connections never cease. */
const LET_IN_WITHIN_MS = 1_000;

/** Ends the HTTP server without failing a request. */
@Injectable()
export class Drain {
  /** From the first signal on: readiness is off and every response closes its connection. */
  isDraining = false;

  constructor(private readonly settings: Settings) {}

  /**
   * Stops listening and waits until every request under way is answered. Connections of busy clients are closed by their next
   * response, not under them.
   *
   * @param isAnswering whether a client lacks some of its response; Node.js counts one as done when its end is written,
   * however much of it the network has still to take
   * @returns whether all requests were answered within the bound
   */
  async empty(server: Server, isAnswering: () => boolean): Promise<boolean> {
    this.isDraining = true;
    await pause(this.settings.DRAIN_DELAY_MS);
    await letIn(server);
    const deadline = performance.now() + this.settings.DRAIN_TIMEOUT_MS;
    let closed = false as boolean;
    // http.Server's own close would cut idle connections at once, and stop looking for requests that do not arrive in time.
    TcpServer.prototype.close.call(server, () => (closed = true));
    const graceEnds = performance.now() + IDLE_GRACE_MS;
    while (!closed && performance.now() < deadline) {
      await pause(POLL_MS);
      if (performance.now() >= graceEnds && !isAnswering()) server.closeIdleConnections();
    }
    return closed;
  }
}

/** Node.js accepts a connection a turn of the event loop, and closing the server resets those that wait for their turn. */
async function letIn(server: Server): Promise<void> {
  const deadline = performance.now() + LET_IN_WITHIN_MS;
  let isAccepting = true;
  const accepted = () => (isAccepting = true);
  server.on('connection', accepted);
  while (isAccepting && performance.now() < deadline) {
    isAccepting = false;
    await nextTurn();
  }
  server.off('connection', accepted);
}
