/** Pieces of memory, what each should hold, and what was queued with it. */
import type { Device, DeviceBuffer, PinnedBuffer } from 'cuda-streams'
import type { Use } from './tracks.js'

export type PieceKind = 'device' | 'interprocess' | 'foreign' | 'pinned'

export class Piece {
  readonly kind: PieceKind
  readonly buffer: DeviceBuffer | PinnedBuffer
  readonly device: Device
  /** What it should hold once all that is queued is done. */
  readonly model: Uint8Array<ArrayBuffer>
  /** Of pinned memory: all of it, to be looked at where nothing is queued with it. */
  readonly view: Uint8Array
  /** Of foreign memory: the buffer that owns it. */
  readonly owner: DeviceBuffer | undefined
  /** The stream in whose order the library frees it. */
  readonly allocationStream: Use['track'] | undefined
  /** The latest write, and what has read it since. */
  written: Use
  reads: Use[] = []
  /** Graphs and actions that need it a while longer. */
  held = 0
  /** The library does not know of all uses: those by a graph, or by its bare address. */
  untracked = false

  constructor(
    made: Pick<Piece, 'kind' | 'buffer'> & { readonly owner?: DeviceBuffer; readonly allocationStream?: Use['track'] },
    written: Use,
  ) {
    this.kind = made.kind
    this.buffer = made.buffer
    this.device = made.buffer.device
    this.model = new Uint8Array(made.buffer.byteLength)
    this.view = 'bytes' in made.buffer ? made.buffer.bytes : new Uint8Array(0)
    this.owner = made.owner
    this.allocationStream = made.allocationStream
    this.untracked = made.owner !== undefined
    this.written = written
  }

  get length(): number {
    return this.model.length
  }

  get isPinned(): boolean {
    return this.kind === 'pinned'
  }

  /** The buffer, where it is pinned. */
  get pinned(): PinnedBuffer {
    if (!('bytes' in this.buffer)) throw new TypeError(`${this.buffer} is not pinned`)
    return this.buffer
  }

  get uses(): readonly Use[] {
    return [this.written, ...this.reads]
  }

  /** It was read. */
  readBy(use: Use): void {
    this.reads = this.reads.filter(({ track, at }) => track !== use.track && track.done < at)
    this.reads.push(use)
  }

  /** It was written. */
  writtenBy(use: Use): void {
    this.written = use
    this.reads = []
  }

  toString(): string {
    return `${this.kind} memory of ${this.length} bytes`
  }
}

/** A part of a piece. */
export interface Part {
  readonly piece: Piece
  readonly from: number
  readonly length: number
}

/** What the part should hold: the model itself, not a copy. */
export function modelOf({ piece, from, length }: Part): Uint8Array<ArrayBuffer> {
  return piece.model.subarray(from, from + length)
}
