/**
 * Finds out what a host implementation has changed and may not: the memory that its launch only reads, and what lies around the slices that it was
 * given. Changes are found by comparison, so writes of the same bytes are not noticed, and of long stretches only both ends are compared unless all
 * is asked for.
 */
import { sameBytes } from '../foundation/base/bytes.js'
import type { Access } from '../foundation/driver/touched-memory.js'

/** The bytes of a stretch that are compared: half of them at each end. */
const COMPARED = 2 ** 18
/**
 * The bytes for copies, which are made as far as there is room. A launch inside another one's host implementation uses the same bytes, which makes
 * that one's copies worthless.
 */
const SCRATCH = 2 ** 20
let scratch: Uint8Array | undefined

interface Piece {
  readonly bytes: Uint8Array
  readonly access: Access
  /** The allocation that the piece is part of, as a range of its buffer. */
  readonly within: { readonly begin: number; readonly end: number }
}

/** Bytes that no part of the launch may write, and a copy of them from before. */
interface Stretch {
  readonly now: Uint8Array
  readonly before: Uint8Array
}

export interface Change {
  /** The number of the piece that is only read and was written to; undefined if the byte lies in none. */
  readonly piece: number | undefined
  /** The offset of the byte from the beginning of the piece, or else of the whole allocation. */
  readonly at: number
}

/**
 * Copies the memory before the host implementation runs. The function that it returns is called afterwards, and finds the first change, unless other
 * memory was watched meanwhile.
 */
export function watchWrites(pieces: readonly Piece[], comparesAll: boolean): () => Change | undefined {
  const kept = new Kept()
  const keep = comparesAll ? kept.add.bind(kept) : kept.addEnds.bind(kept)
  for (const [index, { bytes, within }] of pieces.entries()) {
    const { buffer } = bytes
    if (pieces.findIndex((each) => isInSame(each, buffer, within.begin)) !== index) continue
    let from = within.begin
    for (const { byteOffset, byteLength } of writable(pieces, buffer, within.begin)) {
      keep(buffer, from, byteOffset)
      from = Math.max(from, byteOffset + byteLength)
    }
    keep(buffer, from, within.end)
  }
  return () => {
    for (const { now, before } of kept.stretches) {
      if (sameBytes(now, before)) continue
      return placeOf(
        pieces,
        now,
        now.findIndex((byte, index) => byte !== before[index]),
      )
    }
    return undefined
  }
}

/** Whether a piece lies in the allocation that begins here. */
const isInSame = ({ bytes, within }: Piece, buffer: ArrayBufferLike, begin: number): boolean =>
  bytes.buffer === buffer && within.begin === begin

const writable = (pieces: readonly Piece[], buffer: ArrayBufferLike, begin: number): readonly Uint8Array[] =>
  pieces
    .filter((each) => isInSame(each, buffer, begin) && each.access !== 'in')
    .map(({ bytes }) => bytes)
    .sort((a, b) => a.byteOffset - b.byteOffset)

class Kept {
  readonly stretches: Stretch[] = []
  #used = 0

  /** Keeps a copy of these bytes. */
  add(buffer: ArrayBufferLike, from: number, to: number): void {
    if (to <= from) return
    const now = new Uint8Array(buffer, from, to - from)
    let before: Uint8Array
    if (this.#used + now.length > SCRATCH) before = now.slice()
    else {
      scratch ??= new Uint8Array(SCRATCH)
      before = scratch.subarray(this.#used, this.#used + now.length)
      before.set(now)
      this.#used += now.length
    }
    this.stretches.push({ now, before })
  }

  /** Keeps a copy of these bytes, or only of both ends of a long stretch. */
  addEnds(buffer: ArrayBufferLike, from: number, to: number): void {
    if (to - from <= COMPARED) this.add(buffer, from, to)
    else {
      this.add(buffer, from, from + COMPARED / 2)
      this.add(buffer, to - COMPARED / 2, to)
    }
  }
}

function placeOf(pieces: readonly Piece[], { buffer, byteOffset }: Uint8Array, index: number): Change {
  const at = byteOffset + index
  const piece = pieces.findIndex(
    ({ bytes }) => bytes.buffer === buffer && at >= bytes.byteOffset && at < bytes.byteOffset + bytes.byteLength,
  )
  if (piece >= 0) return { piece, at: at - (pieces[piece]?.bytes.byteOffset ?? 0) }
  const around = pieces.find(({ bytes, within }) => bytes.buffer === buffer && at >= within.begin && at < within.end)
  return { piece: undefined, at: at - (around?.within.begin ?? 0) }
}
