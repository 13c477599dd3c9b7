import type { Server } from 'node:http';
import { Server as TcpServer } from 'node:net';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import type { Settings } from '../../settings.ts';

/** A busy client sends its next request within this time, and the response tells it to close. */
const IDLE_GRACE_MS = 1_000;
const POLL_MS = 100;
const LET_IN_WITHIN_MS = 1_000;

/** Ends the HTTP server without failing a request. */
export class Drain {
  isDraining = false;

  /**
   * Stops listening and waits until every request under way is answered.
   *
   * @param isAnswering whether a client still lacks some of its response; Node.js counts only what it has to write
   * @returns whether all requests were answered in time
   */
  async empty(
    server: Server,
    { DRAIN_DELAY_MS, DRAIN_TIMEOUT_MS }: Pick<Settings, 'DRAIN_DELAY_MS' | 'DRAIN_TIMEOUT_MS'>,
    isAnswering: () => boolean,
  ): Promise<boolean> {
    this.isDraining = true;
    await pause(DRAIN_DELAY_MS);
    await letIn(server);
    const deadline = performance.now() + DRAIN_TIMEOUT_MS;
    let closed = false as boolean;
    // The close of http.Server would cut idle connections at once, and stop its time-outs.
    TcpServer.prototype.close.call(server, () => (closed = true));
    const graceEnds = performance.now() + IDLE_GRACE_MS;
    while (!closed && performance.now() < deadline) {
      await pause(POLL_MS);
      if (performance.now() >= graceEnds && !isAnswering()) server.closeIdleConnections();
    }
    return closed;
  }
}

/** Node.js accepts one connection in each turn of the event loop; closing the server resets those that still wait. */
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
