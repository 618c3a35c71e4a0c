/** Which steps touched which bytes last: those that a further touch can be in conflict with. */
import type { Touch } from '../driver/sim/machine/work.js'

/** Neighbouring bytes that the same steps have touched. */
interface Piece {
  readonly start: number
  readonly end: number
  /** The step that wrote last, and those that have read since; none that another of them comes after. */
  readonly write: number | undefined
  readonly reads: readonly number[]
}

const NONE: readonly number[] = []

export class Accesses {
  /** In the order of their addresses, without overlap. */
  readonly #pieces: Piece[] = []

  /** Step `place` touches it. `isBefore` says of a step whether that one comes after it. */
  add({ pointer, byteLength, writes }: Touch, place: number, isBefore: (earlier: number) => boolean): void {
    const last = pointer + byteLength
    const first = this.#indexOf(pointer)
    const pieces: Piece[] = []
    const touch = (start: number, end: number, old?: Piece): void => {
      if (start >= end) return
      if (writes) pieces.push({ start, end, write: place, reads: NONE })
      else {
        const reads = (old?.reads ?? NONE).filter((read) => !isBefore(read))
        pieces.push({ start, end, write: old?.write, reads: [...reads, place] })
      }
    }
    let [at, from] = [first, pointer]
    for (; at < this.#pieces.length; at += 1) {
      const old = this.#pieces[at] as Piece
      if (old.start >= last) break
      if (old.start < pointer) pieces.push({ ...old, end: pointer })
      touch(from, old.start)
      touch(Math.max(from, old.start), Math.min(last, old.end), old)
      if (old.end > last) pieces.push({ ...old, start: last })
      from = old.end
    }
    touch(from, last)
    if (at - first === pieces.length) for (const [nth, piece] of pieces.entries()) this.#pieces[first + nth] = piece
    else this.#pieces.splice(first, at - first, ...pieces)
  }

  /** The steps that a touch is in conflict with, but those that another of them comes after. */
  *conflicting({ pointer, byteLength, writes }: Touch): Generator<number> {
    for (let at = this.#indexOf(pointer); at < this.#pieces.length; at += 1) {
      const { start, write, reads } = this.#pieces[at] as Piece
      if (start >= pointer + byteLength) return
      if (write !== undefined) yield write
      if (writes) yield* reads
    }
  }

  /** The first piece that ends behind an address. */
  #indexOf(address: number): number {
    let [low, high] = [0, this.#pieces.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#pieces[middle] as Piece).end <= address) low = middle + 1
      else high = middle
    }
    return low
  }
}
