import { type Socket, connect } from 'node:net';
import { PATIENCE_MS } from './patience.ts';

/** A whole response, as the server sent it. */
export interface Answer {
  readonly status: number;
  /** By lower-case name. A line feed joins the values of a repeated header. */
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  /** The body as UTF-8. */
  readonly text: string;
}

/** There was no connection: no byte of the request was sent. */
export class NotConnected extends Error {
  override readonly name = 'NotConnected';
}

/** The connection ended during a request, or no response came in time. Nobody knows whether the server acted on it. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

export type HeaderLines = readonly (readonly [name: string, value: string])[];

export interface Question {
  readonly method?: string;
  /** The request target, sent unchanged. */
  readonly target?: string;
  /** Sent unchanged, in this order. A missing `Host` is added and, with a body, a missing `Content-Length`. */
  readonly headers?: HeaderLines | Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** The bytes of a request. The head is latin1, one byte for each character. The body is UTF-8. */
export function requestBytes({ method = 'GET', target = '/', headers = [], body }: Question): Buffer {
  const lines = headers instanceof Array ? [...headers] : Object.entries(headers);
  const names = new Set(lines.map(([name]) => name.toLowerCase()));
  if (!names.has('host')) lines.unshift(['Host', 'inventory.test']);
  if (body !== undefined && !names.has('content-length') && !names.has('transfer-encoding')) {
    lines.push(['Content-Length', String(Buffer.byteLength(body))]);
  }
  const head = `${method} ${target} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body ?? '')]);
}

/** Sends one request on a new connection. */
export async function ask(port: number, question: Question, { withinMs = PATIENCE_MS } = {}): Promise<Answer> {
  const connection = await Connection.open(port);
  return connection.request(question, { withinMs }).finally(() => connection.destroy());
}

/** Sends bytes unchanged on a new connection. @returns everything that the server sends until the end */
export async function sendRaw(port: number, bytes: string): Promise<string> {
  const connection = await Connection.open(port);
  const received = connection.send(bytes).closed();
  return received.finally(() => connection.destroy());
}

/**
 * One HTTP/1.1 connection on a bare socket, which can send malformed requests. It retries nothing and sees every reset.
 */
export class Connection {
  readonly #socket: Socket;
  #unread: Buffer[] = [];
  #unreadBytes = 0;
  #ended = false;
  #isAsking = false;
  #isLast = false;
  /** The server closed the connection between two requests, and its last response had not announced that. */
  closedUnannounced = false;
  #wake: () => void = () => undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const end = () => {
      if (!this.#ended) this.closedUnannounced = !this.#isAsking && !this.#isLast;
      this.#ended = true;
      this.#wake();
    };
    socket
      .on('data', (bytes: Buffer) => {
        this.#unread.push(bytes);
        this.#unreadBytes += bytes.length;
        this.#wake();
      })
      .on('end', end)
      .on('close', end)
      .on('error', () => undefined); // the caller checks a cut connection
  }

  /** @throws {NotConnected} when no program listens on the port of 127.0.0.1 */
  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
      socket.once('connect', () => resolve(new Connection(socket)));
      socket.once('error', (error) => reject(new NotConnected(error.message)));
    });
  }

  /** True until the server closes the connection or announces that. */
  get reusable(): boolean {
    return !this.#ended && !this.#isLast;
  }

  /**
   * Sends one request and waits for its response.
   *
   * @throws {NotConnected} when the connection had ended before
   * @throws {ConnectionLost} when it ends before the whole response has arrived, or `withinMs` has passed
   */
  async request(question: Question, { withinMs = PATIENCE_MS } = {}): Promise<Answer> {
    if (this.#ended) throw new NotConnected('closed while idle');
    this.#isAsking = true;
    this.send(requestBytes(question));
    const answer = await this.answer({ toHead: question.method === 'HEAD', withinMs });
    this.#isAsking = false;
    return answer;
  }

  /** Sends text as latin1, one byte for each character. */
  send(bytes: string | Buffer): this {
    this.#socket.write(bytes, 'latin1');
    return this;
  }

  /** Tells the server that nothing more follows, like `shutdown`. Responses still arrive. */
  finish(): void {
    this.#socket.end();
  }

  /** Stops reading, so that the server cannot write on. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** From now on, waits after each piece that it reads. */
  readSlowly(breakMs: number): void {
    this.#socket.on('data', () => {
      this.pause();
      setTimeout(() => this.resume(), breakMs);
    });
  }

  /**
   * Waits for the next response, an interim one (1xx) included.
   *
   * @param options.toHead true for the response to a HEAD request, which has no body
   * @throws {ConnectionLost} when the whole response does not arrive in time, or the connection ends first
   */
  async answer({ toHead = false, withinMs = PATIENCE_MS } = {}): Promise<Answer> {
    const deadline = performance.now() + withinMs;
    for (let enough = 1; ;) {
      if (this.#unreadBytes >= enough || this.#ended) {
        const taken = takeAnswer(this.#joined(), { toHead, ended: this.#ended });
        if ('answer' in taken) {
          this.#unread = [taken.rest];
          this.#unreadBytes = taken.rest.length;
          this.#isLast ||= taken.answer.headers['connection']?.toLowerCase() === 'close';
          return taken.answer;
        }
        enough = taken.enough;
      }
      if (this.#ended) throw new ConnectionLost(`the connection ended after ${this.#unreadText()}`);
      await this.#more(deadline);
    }
  }

  /** Waits until the server has closed the connection. @returns the bytes that no response took */
  async closed({ withinMs = PATIENCE_MS } = {}): Promise<string> {
    const deadline = performance.now() + withinMs;
    while (!this.#ended) await this.#more(deadline);
    return this.#joined().toString('latin1');
  }

  destroy(): void {
    this.#isLast = true;
    this.#socket.destroy();
  }

  /** Ends the connection by a reset, like the system of a crashed client. */
  reset(): void {
    this.#isLast = true;
    this.#socket.resetAndDestroy();
  }

  #joined(): Buffer {
    const joined = Buffer.concat(this.#unread);
    this.#unread = [joined];
    return joined;
  }

  #unreadText(): string {
    return JSON.stringify(this.#joined().toString('latin1', 0, 200));
  }

  #more(deadline: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = () => reject(new ConnectionLost(`nothing more came in time after ${this.#unreadText()}`));
      const timer = setTimeout(giveUp, deadline - performance.now());
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** The first response and the bytes behind it, or the number of bytes that a new attempt needs. */
function takeAnswer(
  bytes: Buffer,
  { toHead, ended }: { toHead: boolean; ended: boolean },
): { answer: Answer; rest: Buffer } | { enough: number } {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return { enough: bytes.length + 1 };
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(statusLine) ?? [];
  if (status === undefined) throw new Error(`not a status line: "${statusLine}"`);
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:\s]+): ?(.*)$/.exec(line) ?? [];
    const key = name.toLowerCase();
    headers[key] = key in headers ? `${headers[key] ?? ''}\n${value}` : value;
  }
  const start = headEnd + 4;
  const hasNoBody = toHead || /^(1..|204|304)$/.test(status);
  const length = hasNoBody ? 0 : headers['content-length'];
  const toTheEnd = ended ? bytes.length : bytes.length + 1;
  const end = length === undefined ? toTheEnd : start + Number(length);
  if (end > bytes.length) return { enough: end };
  const body = bytes.subarray(start, end);
  const answer: Answer = { status: Number(status), headers, bytes: body, text: body.toString() };
  return { answer, rest: bytes.subarray(end) };
}
