/**
 * What a twin has changed and may not: the memory that its launch only reads, and what lies around the slices that it was
 * given. It shows by comparison, so what is written as it was before is not noticed, and of long stretches only both ends
 * are compared unless all is asked for.
 */
import type { Access } from '../driver.js'

/** Bytes of a stretch that are compared: half of them at each end. */
const COMPARED = 2 ** 18

export interface TwinPiece {
  readonly bytes: Uint8Array
  readonly access: Access
}

/** Bytes that no part of the launch may write, and a copy of them from before. */
interface Stretch {
  readonly now: Uint8Array
  readonly before: Uint8Array
}

export interface Change {
  /** The number of the piece that is only read and was written to; undefined where that lies in none. */
  readonly piece: number | undefined
  /** Of the byte, from the beginning of the piece or else of the whole allocation. */
  readonly at: number
}

/** Call it before the twin runs; the result says afterwards what has changed first. */
export function watchWrites(pieces: readonly TwinPiece[], comparesAll: boolean): () => Change | undefined {
  const stretches: Stretch[] = []
  for (const buffer of new Set(pieces.map(({ bytes }) => bytes.buffer))) {
    let from = 0
    for (const { byteOffset, byteLength } of writable(pieces, buffer)) {
      keep(stretches, buffer, from, byteOffset, comparesAll)
      from = Math.max(from, byteOffset + byteLength)
    }
    keep(stretches, buffer, from, buffer.byteLength, comparesAll)
  }
  return () => {
    for (const { now, before } of stretches) {
      if (Buffer.compare(now, before) === 0) continue
      return placeOf(
        pieces,
        now,
        now.findIndex((byte, index) => byte !== before[index]),
      )
    }
    return undefined
  }
}

const writable = (pieces: readonly TwinPiece[], buffer: ArrayBufferLike): readonly Uint8Array[] =>
  pieces
    .filter(({ bytes, access }) => bytes.buffer === buffer && access !== 'in')
    .map(({ bytes }) => bytes)
    .sort((a, b) => a.byteOffset - b.byteOffset)

function keep(stretches: Stretch[], buffer: ArrayBufferLike, from: number, to: number, all: boolean): void {
  const half = COMPARED / 2
  const ends =
    all || to - from <= COMPARED
      ? [[from, to]]
      : [
          [from, from + half],
          [to - half, to],
        ]
  for (const [begin = 0, end = 0] of ends) {
    if (end <= begin) continue
    const now = new Uint8Array(buffer, begin, end - begin)
    stretches.push({ now, before: now.slice() })
  }
}

function placeOf(pieces: readonly TwinPiece[], { buffer, byteOffset }: Uint8Array, index: number): Change {
  const at = byteOffset + index
  const piece = pieces.findIndex(
    ({ bytes }) => bytes.buffer === buffer && at >= bytes.byteOffset && at < bytes.byteOffset + bytes.byteLength,
  )
  return { piece: piece < 0 ? undefined : piece, at: piece < 0 ? at : at - (pieces[piece]?.bytes.byteOffset ?? 0) }
}
