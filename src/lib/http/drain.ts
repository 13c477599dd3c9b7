import type { Server } from 'node:http';
import { Server as TcpServer } from 'node:net';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

/** A busy client sends its next request within this time, and the response tells it to close. */
const IDLE_GRACE_MS = 1_000;
const POLL_MS = 100;
/** So many connections wait at most until Node.js accepts them: its own bound is 511, and Linux adds one. */
const MOST_WAITING = 512;

/** Ends the HTTP server without failing a request. */
export class Drain {
  isDraining = false;

  /** @param isAnswering whether a client still lacks some of its response; Node.js counts only what it has to write */
  constructor(private readonly isAnswering: () => boolean) {}

  /**
   * Waits until all connections have closed. From now on, the response to each new request closes its connection. Idle
   * ones close a second after the end of listening, as soon as no response is being sent.
   *
   * @param times.delayMs goes on listening for so long, so that balancers see that the service is about to end
   * @param times.timeoutMs for connections that stay open
   * @returns whether all have closed in time, by the service or by their clients
   */
  async empty(
    server: Server,
    { delayMs, timeoutMs }: { readonly delayMs: number; readonly timeoutMs: number },
  ): Promise<boolean> {
    this.isDraining = true;
    await pause(delayMs);
    await letIn(server);
    const deadline = performance.now() + timeoutMs;
    let closed = false as boolean;
    // The close of http.Server would cut idle connections at once, and stop its time-outs.
    TcpServer.prototype.close.call(server, () => (closed = true));
    const graceEnds = performance.now() + IDLE_GRACE_MS;
    while (!closed && performance.now() < deadline) {
      await pause(POLL_MS);
      if (performance.now() >= graceEnds && !this.isAnswering()) server.closeIdleConnections();
    }
    return closed;
  }
}

/** Node.js accepts one connection in each turn of the event loop; closing the server resets those that still wait. */
async function letIn(server: Server): Promise<void> {
  let isAccepting = true;
  const accepted = () => (isAccepting = true);
  server.on('connection', accepted);
  for (let turns = 0; isAccepting && turns < MOST_WAITING; turns++) {
    isAccepting = false;
    await nextTurn();
  }
  server.off('connection', accepted);
}
