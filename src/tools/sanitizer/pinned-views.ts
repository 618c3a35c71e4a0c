/**
 * Finds out from the bytes of pinned memory what JavaScript did with it: whether it wrote through a view that it asked for, and whether it wrote
 * through an older view while queued work still reads.
 */
import { sameBytes } from '../../foundation/base/bytes.js'
import { type Epoch, isBefore, type References } from '../../foundation/base/vector-clock.js'
import type { Pointer } from '../../foundation/driver/handle-types.js'
import type { Access } from '../../foundation/driver/touched-memory.js'
import type { CheckedOperation } from './operations.js'
import type { Region } from './regions.js'

/** The number of bytes above which only pieces of them are compared. */
const WHOLE = 65_536
const PIECES = 16
const PIECE = WHOLE / PIECES
/** The most queued reads that are compared, and the most queued writes that are followed. */
const MOST = 64

/** A copy of bytes as they were. */
class Snapshot {
  readonly #pieces: readonly (readonly [offset: number, bytes: Uint8Array])[]

  constructor(
    private readonly region: Region,
    readonly start: number,
    readonly end: number,
  ) {
    const bytes = bytesOf(region, start, end)
    const { length } = bytes
    const distance = (length - PIECE) / (PIECES - 1)
    const offsets = length <= WHOLE ? [0] : Array.from({ length: PIECES }, (_, index) => Math.floor(index * distance))
    const piece = length <= WHOLE ? length : PIECE
    this.#pieces = offsets.map((offset) => [offset, bytes.slice(offset, offset + piece)])
  }

  get hasChanged(): boolean {
    const now = bytesOf(this.region, this.start, this.end)
    return this.#pieces.some(([at, bytes]) => !sameBytes(bytes, now.subarray(at, at + bytes.length)))
  }
}

interface UsedBytes {
  readonly region: Region
  readonly operation: CheckedOperation
  readonly before: Snapshot
}

/** A function that is called with the access that JavaScript turned out to have made. */
type ScriptAccess = (region: Region, operation: CheckedOperation, start: number, end: number, access: Access) => void

export class PinnedViews {
  /** The views of which it is not known yet whether JavaScript writes through them. */
  #views: UsedBytes[] = []
  /** The queued work that reads memory which the program has views of. */
  #reads: UsedBytes[] = []
  /** The queued work that writes there, and that JavaScript does not know to be complete. */
  #writes: Omit<UsedBytes, 'before'>[] = []

  constructor(
    private readonly host: Epoch,
    private readonly accessed: ScriptAccess,
    /** Called if the bytes of a queued read have changed before JavaScript knew that the read was complete. */
    private readonly changed: (region: Region, read: CheckedOperation, start: number, end: number) => void,
  ) {}

  asked(region: Region, operation: CheckedOperation, start: number, end: number): void {
    this.#views.push({ region, operation, before: new Snapshot(region, start, end) })
  }

  /** Notes that work was queued that uses the memory. JavaScript did not write what the work writes. */
  queued(region: Region, operation: CheckedOperation, start: Pointer, byteLength: number, access: Access): void {
    if (access !== 'in') {
      if (this.#reads.length > 0) this.#reads = this.#reads.filter((read) => read.region !== region)
      // The latest write to a piece of memory stands for those before it.
      const tellsMore = (write: Omit<UsedBytes, 'before'>): boolean =>
        !isBefore(write.operation, this.host) && (write.region !== region || !isBefore(write.operation, operation))
      this.#writes = this.#writes.filter(tellsMore)
      this.#writes.push({ region, operation })
      // If there are too many writes to follow, reads are not compared here until the program asks for a view again.
      if (this.#writes.length > MOST) for (const write of this.#writes.splice(0)) write.region.isViewed = false
    } else if (region.isViewed && !this.#isWritten(region)) {
      if (this.#reads.length >= MOST) this.#reads.shift()
      this.#reads.push({ region, operation, before: new Snapshot(region, start, start + byteLength) })
    }
  }

  #isWritten(region: Region): boolean {
    return this.#writes.some((write) => write.region === region && !isBefore(write.operation, this.host))
  }

  addReferences(references: References): void {
    for (const uses of [this.#views, this.#reads, this.#writes]) {
      for (const { operation } of uses) references.add(operation)
    }
  }

  get hasReads(): boolean {
    return this.#reads.length > 0
  }

  /** Compares the bytes of the views; to be called before anything that may change the bytes, or what JavaScript knows to be complete. */
  look(): void {
    if (this.#views.length > 0) {
      const views = this.#views
      this.#views = []
      for (const { region, operation, before } of views) {
        this.accessed(region, operation, before.start, before.end, before.hasChanged ? 'out' : 'in')
      }
    }
    this.checkReads()
  }

  /** Reports the queued reads whose bytes JavaScript has written. */
  checkReads(): void {
    if (this.#reads.length === 0) return
    const reads = this.#reads
    this.#reads = []
    for (const read of reads) {
      const { region, operation, before } = read
      if (region.freed !== undefined || isBefore(operation, this.host)) continue
      if (before.hasChanged) this.changed(region, operation, before.start, before.end)
      else this.#reads.push(read)
    }
  }

  /** Forgets queued reads, since a host function has run that may have written to these bytes in its own order. */
  forgetReads(): void {
    this.#reads.length = 0
  }
}

const bytesOf = (region: Region, from: number, to: number): Uint8Array =>
  region.read(from, to - from) ?? new Uint8Array()
