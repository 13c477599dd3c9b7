import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** Content codings of the list in the order of preference when a client weighs them alike. */
export const CODINGS = ['br', 'gzip', 'identity'] as const;
export type Coding = (typeof CODINGS)[number];

const compress = {
  br: (bytes: Buffer) =>
    promisify(brotliCompress)(bytes, {
      params: { [constants.BROTLI_PARAM_QUALITY]: 1, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
    }),
  gzip: (bytes: Buffer) => promisify(gzip)(bytes, { level: 1 }),
};

const LONGEST_TEXT_BYTES = 16_384;

/** The whole stock as the bytes of one answer, shared by every answer that sends them. */
export class StockList {
  /** Depends on nothing but the content. */
  readonly #hash: string;
  readonly #coded = new Map<Coding, Promise<Buffer>>();

  /** What to send where it is not compressed. A short text leaves in one piece with the head before it. */
  readonly plain: Buffer | string;

  /** @param sha256 of the bytes, in base64url */
  constructor(
    readonly bytes: Buffer,
    sha256: string,
  ) {
    this.plain = bytes.length > LONGEST_TEXT_BYTES ? bytes : bytes.toString('latin1');
    this.#hash = sha256.slice(0, 27);
  }

  /** The entity tag of the list in a coding, unquoted. */
  tag(coding: Coding): string {
    return coding === 'identity' ? this.#hash : `${this.#hash}-${coding}`;
  }

  /** Whether a tag is this list's, in whichever coding the client has it. */
  hasTag(tag: string): boolean {
    return CODINGS.some((coding) => tag === this.tag(coding));
  }

  /** Compressed when first asked for, beside the event loop, and once. */
  in(coding: Exclude<Coding, 'identity'>): Promise<Buffer> {
    let coded = this.#coded.get(coding);
    if (coded === undefined) this.#coded.set(coding, (coded = compress[coding](this.bytes)));
    return coded;
  }
}
