import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { constants, crc32, deflateRaw, deflateRawSync } from 'node:zlib';

/** The average size of a piece. */
export const PETS_PER_PIECE = 1_024;

/** Pieces that gzip goes through in one turn of the event loop. */
const PIECES_PER_TURN = 64;

/** Content codings of the list; the first is for a client that takes any. */
export const CODINGS = ['gzip', 'identity'] as const;
export type Coding = (typeof CODINGS)[number];

/** The content of a response in chunks that other responses share. */
export interface Body {
  readonly chunks: readonly [string] | readonly Buffer[];
  readonly length: number;
}

/** A body up to this long is one text, which leaves in one write with the head before it. */
const LONGEST_TEXT_BYTES = 16_384;

const OPEN = Buffer.from('[');
const COMMA = Buffer.from(',');
const CLOSE = Buffer.from(']');

const deflatePart = { finishFlush: constants.Z_SYNC_FLUSH };
/** RFC 1952: the header of a member without a name or a time. Then the bracket. */
const GZIP_OPEN = Buffer.concat([
  Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]),
  deflateRawSync(OPEN, deflatePart),
]);
const DEFLATED_COMMA = deflateRawSync(COMMA, deflatePart);
const LAST_BLOCK = deflateRawSync(CLOSE);

/** How an item begins. Nothing else does, because quotes in the text of a member are escaped. */
export const ITEM_START = '{"petId":';
const deflateAsync = promisify(deflateRaw);

/**
 * Whether a pet begins a piece: one of {@link PETS_PER_PIECE} does, by its id alone. So every process cuts a list
 * alike, and a pet that comes or goes changes one piece, or splits or joins two. All digits count, by the finaliser of
 * murmur3, so that regular ids spread.
 */
export function beginsPiece(petId: string): boolean {
  return ((mixed(Number(petId.slice(-9))) ^ mixed(Number(petId.slice(0, -9)))) & (PETS_PER_PIECE - 1)) === 0;
}

function mixed(number: number): number {
  let bits = Math.imul(number ^ (number >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return bits ^ (bits >>> 16);
}

/** The pet of the item whose comma is at this place. */
export function petAt(items: Buffer, at: number): bigint {
  const digits = at + 1 + ITEM_START.length;
  return BigInt(items.toString('latin1', digits, items.indexOf(',', digits)));
}

/** Consecutive items, each with a comma before it. Lists share the pieces that they have in common. */
export class Piece {
  readonly firstPet: bigint;
  readonly hash: Buffer;
  #deflated: Promise<Buffer> | undefined;

  constructor(readonly bytes: Buffer) {
    this.firstPet = petAt(bytes, 0);
    this.hash = hash('sha256', bytes, 'buffer');
  }

  /** @param items each with a comma before it */
  static cut(items: string): Piece[] {
    const pieces: Piece[] = [];
    let from = 0;
    for (let item = items.indexOf(ITEM_START, 2); item !== -1; item = items.indexOf(ITEM_START, item + 1)) {
      const digits = item + ITEM_START.length;
      if (!beginsPiece(items.slice(digits, items.indexOf(',', digits)))) continue;
      pieces.push(new Piece(Buffer.from(items.slice(from, item - 1))));
      from = item - 1;
    }
    if (items !== '') pieces.push(new Piece(Buffer.from(items.slice(from))));
    return pieces;
  }

  get isDeflated(): boolean {
    return this.#deflated !== undefined;
  }

  /**
   * Raw deflate data up to a byte boundary, without a last block. It begins with {@link DEFLATED_COMMA}. Created on
   * first use, beside the event loop.
   */
  deflated(): Promise<Buffer> {
    this.#deflated ??= deflateAsync(this.bytes.subarray(1), deflatePart).then(
      (items) => Buffer.concat([DEFLATED_COMMA, items]),
      (error: unknown) => {
        this.#deflated = undefined; // a later attempt may get the memory
        throw error;
      },
    );
    return this.#deflated;
  }
}

const NO_ITEMS = new Piece(Buffer.alloc(0));

/** The whole stock as bytes, shared by every response that sends them. */
export class StockList {
  readonly pieces: readonly Piece[];
  readonly plain: Body;
  readonly #hash: string;
  #gzip: Promise<Body> | undefined;

  constructor(pieces: readonly Piece[]) {
    this.pieces = pieces.length === 0 ? [NO_ITEMS] : pieces;
    const chunks = [OPEN, ...this.pieces.map(({ bytes }, at) => (at === 0 ? bytes.subarray(1) : bytes)), CLOSE];
    const body = bodyOf(chunks);
    // Any bytes pass through latin1 as they are.
    this.plain =
      body.length > LONGEST_TEXT_BYTES ? body : { ...body, chunks: [Buffer.concat(chunks).toString('latin1')] };
    this.#hash = hash('sha256', Buffer.concat(this.pieces.map((piece) => piece.hash)), 'base64url').slice(0, 27);
  }

  /** The same list, with the other list's pieces where they are equal; the other list itself if all are. */
  sharedWith(other: StockList | undefined): StockList {
    if (other === undefined) return this;
    if (this.#hash === other.#hash) return other;
    const known = new Map(other.pieces.map((piece) => [piece.hash.toString('latin1'), piece]));
    return new StockList(this.pieces.map((piece) => known.get(piece.hash.toString('latin1')) ?? piece));
  }

  bytesNotIn(other: StockList): number {
    const others = new Set(other.pieces);
    return this.pieces.reduce((sum, piece) => (others.has(piece) ? sum : sum + piece.bytes.length), 0);
  }

  /** The entity tag of the list in a coding, unquoted. */
  tag(coding: Coding): string {
    return coding === 'identity' ? this.#hash : `${this.#hash}-${coding}`;
  }

  hasTag(tag: string): boolean {
    return CODINGS.some((coding) => tag === this.tag(coding));
  }

  /** How many pieces {@link gzip} still has to compress. */
  get piecesToDeflate(): number {
    return this.#gzip ? 0 : this.pieces.filter((piece) => !piece.isDeflated).length;
  }

  gzip(): Promise<Body> {
    this.#gzip ??= this.#compress().catch((error: unknown) => {
      this.#gzip = undefined;
      throw error;
    });
    return this.#gzip;
  }

  async #compress(): Promise<Body> {
    const chunks: Buffer[] = [GZIP_OPEN];
    let checksum = crc32(OPEN);
    for (const [at, piece] of this.pieces.entries()) {
      if (at % PIECES_PER_TURN === PIECES_PER_TURN - 1) await nextTurn();
      const deflated = await piece.deflated();
      chunks.push(at === 0 ? deflated.subarray(DEFLATED_COMMA.length) : deflated);
      checksum = crc32(at === 0 ? piece.bytes.subarray(1) : piece.bytes, checksum);
    }
    const trailer = Buffer.alloc(8);
    trailer.writeUInt32LE(crc32(CLOSE, checksum));
    trailer.writeUInt32LE(this.plain.length % 2 ** 32, 4);
    return bodyOf([...chunks, LAST_BLOCK, trailer]);
  }
}

function bodyOf(chunks: readonly Buffer[]): Body {
  return { chunks, length: chunks.reduce((sum, chunk) => sum + chunk.length, 0) };
}
