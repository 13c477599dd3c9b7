import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** A whole answer, as it came. */
export interface HttpAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** No connection was made, so nothing of the request was sent. */
export class NotConnected extends Error {}

/** The connection ended under a request in flight: whether the server acted on it is unknown. */
export class ConnectionLost extends Error {}

const HEAD_END = Buffer.from('\r\n\r\n');

/**
 * One HTTP/1.1 keep-alive connection, one request at a time, on a bare socket: nothing is retried behind our back,
 * so that every reset is seen, with what had been answered by then.
 */
export class HttpConnection {
  private received: Buffer[] = [];
  private receivedBytes = 0;
  private neededBytes = 0;
  private waiting: { resolve(answer: HttpAnswer): void; reject(error: Error): void } | undefined;
  private ending: Error | undefined;
  /** False once the server announced `Connection: close` or the socket ended. */
  reusable = true;
  /** True when the server ended it while no request was in flight, without having said so in its last answer. */
  closedUnannounced = false;
  private readonly socket: Socket;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.received.push(chunk);
      this.receivedBytes += chunk.length;
      this.settle();
    });
    socket.on('error', (error) => {
      this.ending = error;
    });
    socket.on('close', () => {
      this.closedUnannounced ||= this.reusable && !this.waiting;
      this.reusable = false;
      const cause = this.ending ?? 'closed by the server';
      const got = Buffer.concat(this.received).toString('latin1').slice(0, 200);
      this.waiting?.reject(new ConnectionLost(got ? `${String(cause)} after ${got}` : String(cause)));
      this.waiting = undefined;
    });
    socket.on('end', () => {
      this.closedUnannounced = this.reusable && !this.waiting;
      this.reusable = false;
    });
  }

  /** @throws {NotConnected} when nobody listens on the port of 127.0.0.1 */
  static async open(port: number): Promise<HttpConnection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    try {
      await once(socket, 'connect');
    } catch (error) {
      throw new NotConnected(String(error));
    }
    return new HttpConnection(socket);
  }

  /** @throws {ConnectionLost} when the connection ends before the whole answer is here */
  request(method: string, path: string, headers: Record<string, string>, body = ''): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) {
        reject(new NotConnected('closed while idle'));
        return;
      }
      this.waiting = { resolve, reject };
      const length = body || method !== 'GET' ? { 'content-length': String(Buffer.byteLength(body)) } : {};
      const lines = Object.entries({ host: 'localhost', ...headers, ...length }).map(
        ([name, value]) => `${name}: ${value}\r\n`,
      );
      this.socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
    });
  }

  /** Stops reading, so that what the server sends piles up on its side. */
  stall(): void {
    this.socket.pause();
  }

  /** Ends the connection; a request in flight fails with {@link ConnectionLost}. */
  close(): void {
    this.reusable = false;
    this.socket.destroy();
  }

  private settle(): void {
    if (this.receivedBytes < this.neededBytes) return; // a long list comes in many pieces, which are joined once
    const bytes = Buffer.concat(this.received);
    this.received = [bytes];
    const headEnd = bytes.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const { status, headers } = parseHead(bytes.toString('latin1', 0, headEnd));
    const bodyStart = headEnd + HEAD_END.length;
    const hasBody = status !== 304 && status !== 204;
    this.neededBytes = bodyStart + (hasBody ? Number(headers.get('content-length') ?? 0) : 0);
    if (this.receivedBytes < this.neededBytes) return;
    const isChunked = headers.get('transfer-encoding') === 'chunked';
    const body = isChunked ? dechunk(bytes.subarray(bodyStart)) : bytes.toString('utf8', bodyStart, this.neededBytes);
    if (body === undefined) return;
    this.received = [];
    this.receivedBytes = 0;
    this.neededBytes = 0;
    if (headers.get('connection')?.toLowerCase() === 'close') this.reusable = false;
    this.waiting?.resolve({ status, headers, body });
    this.waiting = undefined;
  }
}

function parseHead(head: string): { status: number; headers: Map<string, string> } {
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  return { status: Number(statusLine.split(' ')[1]), headers };
}

function dechunk(bytes: Buffer): string | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    const end = lineEnd + 2 + size;
    if (bytes.length < end + 2) return undefined;
    if (size === 0) return Buffer.concat(chunks).toString('utf8');
    chunks.push(bytes.subarray(lineEnd + 2, end));
    at = end + 2;
  }
}
