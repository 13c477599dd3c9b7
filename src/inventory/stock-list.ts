import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { exactIntegers } from '../http/responses.js';
import type { InventoryItem } from './inventory.dto.js';
import { constants, crc32, deflateRaw, deflateRawSync } from 'node:zlib';

/** Every process cuts the list at the same places, so the entity tag depends on the content alone. */
export const PETS_PER_PIECE = 1_024;

/** Content codings of the list; the first is for a client that takes any. */
export const CODINGS = ['gzip', 'identity'] as const;
export type Coding = (typeof CODINGS)[number];

/** A pet that has changed, with its item as JSON; null when the pet is gone. */
export interface ChangedPet {
  readonly petId: string;
  readonly item: string | null;
}

/** The content of a response in chunks that other responses share. */
export interface Body {
  readonly chunks: readonly [string] | readonly Buffer[];
  readonly length: number;
}

/** A body up to this long is one text, which leaves in one write with the head before it. */
const LONGEST_TEXT_BYTES = 16_384;

const CLOSE = Buffer.from(']');

/** RFC 1952: the header of a member without a name or a time. */
const GZIP_HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
const LAST_BLOCK = deflateRawSync(CLOSE);

const BEFORE_PET_ID = '{"petId":';
const deflateAsync = promisify(deflateRaw);

/** Consecutive items, each with the bracket or comma before it. Lists share the pieces that they have in common. */
export class Piece {
  readonly firstPet: bigint;
  readonly hash: Buffer;
  #deflated: Promise<Buffer> | undefined;

  constructor(readonly bytes: Buffer) {
    this.firstPet = BigInt(bytes.toString('latin1', 1 + BEFORE_PET_ID.length, bytes.indexOf(',', 1)));
    this.hash = hash('sha256', bytes, 'buffer');
  }

  /** Cuts items, each with what comes before it. */
  static cut(items: string): Piece[] {
    const pieces: Piece[] = [];
    for (let from = 0, to = 0; from < items.length; from = to) {
      for (let pets = 0; pets < PETS_PER_PIECE && to < items.length; pets++) to = items.indexOf('}', to) + 1;
      pieces.push(new Piece(Buffer.from(items.slice(from, to), 'latin1')));
    }
    return pieces;
  }

  /** As {@link StockList.with}. */
  with(changes: readonly ChangedPet[]): Piece | undefined {
    const parts: Buffer[] = [];
    let from = 0;
    for (const { petId, item } of changes) {
      const start = this.bytes.indexOf(`${BEFORE_PET_ID}${petId},`, from, 'latin1');
      if (start === -1 && item === null) continue; // added and removed since
      if (start === -1 || item === null) return undefined;
      parts.push(this.bytes.subarray(from, start), Buffer.from(item, 'latin1'));
      from = this.bytes.indexOf('}', start) + 1;
    }
    return new Piece(Buffer.concat([...parts, this.bytes.subarray(from)]));
  }

  get isDeflated(): boolean {
    return this.#deflated !== undefined;
  }

  /** As raw deflate data up to a byte boundary, without a last block. Made beside the event loop when first asked for. */
  deflated(): Promise<Buffer> {
    this.#deflated ??= deflateAsync(this.bytes, { finishFlush: constants.Z_SYNC_FLUSH }).catch((error: unknown) => {
      this.#deflated = undefined; // no memory now may be some later
      throw error;
    });
    return this.#deflated;
  }
}

const NO_STOCK = new Piece(Buffer.from('['));

/** The whole stock as bytes, shared by every response that sends them. */
export class StockList {
  readonly pieces: readonly Piece[];
  /** Not compressed. */
  readonly plain: Body;
  readonly #hash: string;
  #gzip: Promise<Body> | undefined;

  /** @param pieces of {@link PETS_PER_PIECE} pets each but for the last */
  constructor(pieces: readonly Piece[]) {
    this.pieces = pieces.length === 0 ? [NO_STOCK] : pieces;
    const chunks = [...this.pieces.map(({ bytes }) => bytes), CLOSE];
    const body = bodyOf(chunks);
    this.plain =
      body.length > LONGEST_TEXT_BYTES ? body : { ...body, chunks: [Buffer.concat(chunks).toString('latin1')] };
    this.#hash = hash('sha256', Buffer.concat(this.pieces.map((piece) => piece.hash)), 'base64url').slice(0, 27);
  }

  /** The list of these items, which are in ascending order of their pets. */
  static of(items: readonly InventoryItem[]): StockList {
    const text = JSON.stringify(items, exactIntegers).slice(0, -1);
    return new StockList(items.length === 0 ? [] : Piece.cut(text));
  }

  /**
   * The list with some items in the place of those of the same pets; the other pieces are shared.
   *
   * @param changes in ascending order of their pets
   * @returns nothing when a pet is new or gone, which moves what comes after it from piece to piece
   */
  with(changes: readonly ChangedPet[]): StockList | undefined {
    const pieces = [...this.pieces];
    for (const [at, changesOfPiece] of Map.groupBy(changes, ({ petId }) => this.#pieceOf(BigInt(petId)))) {
      const piece = pieces[at]?.with(changesOfPiece);
      if (!piece) return undefined;
      pieces[at] = piece;
    }
    return new StockList(pieces);
  }

  /** Length of the pieces that another list does not have. */
  bytesNotIn(other: StockList): number {
    return this.pieces.reduce((sum, piece, at) => (piece === other.pieces[at] ? sum : sum + piece.bytes.length), 0);
  }

  /** The entity tag of the list in a coding, unquoted. */
  tag(coding: Coding): string {
    return coding === 'identity' ? this.#hash : `${this.#hash}-${coding}`;
  }

  /** Whether a tag is this list's, in whichever coding the client has it. */
  hasTag(tag: string): boolean {
    return CODINGS.some((coding) => tag === this.tag(coding));
  }

  /** Pieces that are still to be compressed before {@link gzip} has anything. */
  get piecesToDeflate(): number {
    return this.#gzip ? 0 : this.pieces.filter((piece) => !piece.isDeflated).length;
  }

  /** Made when first asked for. */
  gzip(): Promise<Body> {
    this.#gzip ??= this.#compress().catch((error: unknown) => {
      this.#gzip = undefined;
      throw error;
    });
    return this.#gzip;
  }

  async #compress(): Promise<Body> {
    const chunks: Buffer[] = [GZIP_HEADER];
    let checksum = 0;
    for (const piece of this.pieces) {
      chunks.push(await piece.deflated());
      checksum = crc32(piece.bytes, checksum);
    }
    const trailer = Buffer.alloc(8);
    trailer.writeUInt32LE(crc32(CLOSE, checksum));
    trailer.writeUInt32LE(this.plain.length % 2 ** 32, 4);
    return bodyOf([...chunks, LAST_BLOCK, trailer]);
  }

  /** Where a pet is, or would be. */
  #pieceOf(petId: bigint): number {
    let low = 0;
    for (let high = this.pieces.length; high - low > 1;) {
      const middle = (low + high) >>> 1;
      if ((this.pieces[middle]?.firstPet ?? petId) <= petId) low = middle;
      else high = middle;
    }
    return low;
  }
}

function bodyOf(chunks: readonly Buffer[]): Body {
  return { chunks, length: chunks.reduce((sum, chunk) => sum + chunk.length, 0) };
}
