import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { MAX_TARGET_LENGTH } from './request-head.js';

/** A method that Node.js knows and no path takes. */
const STAND_IN = Buffer.from('UNLINK');
/** Twice what a head may have; the service reads no body behind it. */
const MOST_BYTES = 16_384;

const TOKEN = "[\\w!#$%&'*+.^`|~-]"; // RFC 9110 section 5.6.2
const METHOD = new RegExp(`^${TOKEN}+`);
/** What Node.js may have taken for the beginning of a method that it knows. */
const BEGUN_METHOD = new RegExp(`${TOKEN}{0,20}$`);
/** With methods of RTSP and HTTP/2, Node.js complains only after the target. */
const WHOLE_LINE = new RegExp(`${TOKEN}+ \\S+ HTTP(?:/\\d\\.\\d\\s*)?$`);
const LONGEST_LINE = MAX_TARGET_LENGTH + 50;

export interface ParserError extends Error {
  readonly code?: string;
  readonly reason?: string;
  /** How much of {@link rawPacket} comes before the fault. */
  readonly bytesParsed?: number;
  /** The last packet; it begins with the request line when the head came in one piece. */
  readonly rawPacket?: Buffer;
}

/** The bytes of a request from its method on, if the method is all that Node.js complains of. */
export function requestOfUnknownMethod({ code, reason, bytesParsed = 0, rawPacket }: ParserError): Buffer | undefined {
  const isOfAnotherProtocol = /^Invalid method for|Expected HTTP\/2 Connection Preface/.test(reason ?? '');
  if (!rawPacket || !(code === 'HPE_INVALID_METHOD' || isOfAnotherProtocol)) return undefined;
  // Searching a whole packet for the end of a match would take long.
  const from = Math.max(0, bytesParsed - (isOfAnotherProtocol ? LONGEST_LINE : 20));
  const before = rawPacket.toString('latin1', from, bytesParsed);
  const at = before.search(isOfAnotherProtocol ? WHOLE_LINE : BEGUN_METHOD);
  const bytes = rawPacket.subarray(from + at);
  return at >= 0 && METHOD.test(bytes.toString('latin1', 0, 1)) ? bytes : undefined;
}

/**
 * Takes the place of a connection on which a request with an unknown method came. Node.js parses the request again, with a
 * method that it knows. So the same code checks the head and finds the path.
 */
export class UnknownMethodConnection extends Duplex {
  readonly remoteAddress: string | undefined;
  #isInMethod = true;
  #pushedBytes = 0;

  constructor(private readonly connection: Socket) {
    super({ allowHalfOpen: true, read: () => undefined }); // the bytes come as the client sends them
    this.remoteAddress = connection.remoteAddress;
    connection.removeAllListeners('end'); // Node.js would end a connection on which it knows of no request
    connection.once('end', () => this.#end()).once('close', () => this.destroy());
  }

  /** Takes the bytes that the client sent. */
  receive(bytes: Buffer): void {
    if (this.destroyed || this.#pushedBytes > MOST_BYTES) return;
    if (this.#isInMethod) {
      const { length } = METHOD.exec(bytes.toString('latin1'))?.[0] ?? '';
      if (length === bytes.length) return;
      this.#isInMethod = false;
      bytes = Buffer.concat([STAND_IN, bytes.subarray(length)]);
    }
    this.#pushedBytes += bytes.length;
    this.push(bytes);
  }

  #end(): void {
    if (this.#isInMethod) this.push(STAND_IN);
    this.push(null);
  }

  override _write(bytes: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.connection.write(bytes, done);
  }

  override _final(done: () => void): void {
    this.connection.destroySoon();
    done();
  }
}
