import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { atTestEnd } from './test-end.ts';

interface Link {
  readonly near: Socket;
  readonly far: Socket;
  writes: boolean;
}

/** ReadyForQuery outside a transaction: the server has committed. */
const READY_AND_IDLE = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

/** The message behind each statement, by which PostgreSQL commits it. */
const SYNC_BYTES = 5;

/** Stands between a service and PostgreSQL, listens on 127.0.0.1, and plays faults of the network. */
export class TcpProxy {
  private readonly links = new Set<Link>();
  private readonly server = createServer({ noDelay: true }, (near) => this.join(near));
  private silent = false;
  private withholds = false;
  private answersToCut = 0;
  private delayMs = 0;
  private target: URL;

  /** @param url a connection to the PostgreSQL that it passes everything on to */
  constructor(url: string) {
    this.target = new URL(url);
  }

  /** Listens until the test ends. @returns the URL of the PostgreSQL by this proxy */
  async listen(): Promise<string> {
    await once(this.server.listen(0, '127.0.0.1'), 'listening');
    await atTestEnd(() => this.close());
    const { port } = this.server.address() as AddressInfo;
    return Object.assign(new URL(this.target), { hostname: 'localhost', port: String(port) }).href; // as its certificate says
  }

  /** Resets every connection, in both directions. */
  cut(): void {
    for (const link of this.links) reset(link);
  }

  /** Resets every connection, and passes the next ones on to another server, as after a failover. */
  moveTo(url: string): void {
    this.target = new URL(url);
    this.cut();
  }

  /** Until `speak`, nothing passes in either direction. Connections stay open, and the proxy accepts new ones. */
  silence(): void {
    this.silent = true;
    for (const { near, far } of this.links) {
      near.pause();
      far.pause();
    }
  }

  speak(): void {
    this.silent = false;
    for (const { near, far } of this.links) {
      near.resume();
      far.resume();
    }
  }

  /** Resets the connections of the next `count` commits after PostgreSQL has answered and before the answer passes. */
  cutBeforeAnswer(count: number): void {
    this.answersToCut = count;
  }

  /**
   * From now on PostgreSQL gets all but the messages by which it commits, no answer passes, and no end of a connection.
   */
  withholdCommits(): void {
    this.withholds = true;
  }

  delayAnswers(delayMs: number): void {
    this.delayMs = delayMs;
  }

  async close(): Promise<void> {
    if (!this.server.listening) return;
    this.cut();
    this.server.close();
    await once(this.server, 'close');
  }

  private join(near: Socket): void {
    const far = connect({ host: this.target.hostname, port: Number(this.target.port), noDelay: true });
    const link: Link = { near, far, writes: false };
    this.links.add(link);
    near.on('data', (chunk: Buffer) => {
      link.writes ||= /\bUPDATE\b/i.test(chunk.toString('latin1'));
      far.write(this.withholds ? chunk.subarray(0, -SYNC_BYTES) : chunk);
    });
    far.on('data', (chunk: Buffer) => this.withholds || this.answer(link, chunk));
    for (const [end, other] of [
      [near, far],
      [far, near],
    ] as const) {
      end.on('error', () => undefined); // 'close' follows
      end.on('end', () => this.withholds || other.end());
      end.on('close', (failed) => {
        if (this.withholds) return;
        this.links.delete(link);
        if (failed) other.resetAndDestroy();
        else other.destroySoon();
      });
    }
    if (this.silent) this.silence();
  }

  private answer(link: Link, chunk: Buffer): void {
    if (this.answersToCut > 0 && link.writes && chunk.subarray(-READY_AND_IDLE.length).equals(READY_AND_IDLE)) {
      this.answersToCut--;
      reset(link);
    } else if (this.delayMs > 0) {
      setTimeout(() => link.near.write(chunk), this.delayMs);
    } else {
      link.near.write(chunk);
    }
  }
}

function reset({ near, far }: Link): void {
  near.resetAndDestroy();
  far.resetAndDestroy();
}
