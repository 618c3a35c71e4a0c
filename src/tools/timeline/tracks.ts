/**
 * The tracks of a recording, one for each stream. A handle may come to mean another stream; a track is one stream for good.
 */

import { defaultStreamName, givenName, numberedStream } from '../../core/stream-names.js'
import type { Driver } from '../../foundation/driver/driver.js'
import {
  type ContextHandle,
  DEFAULT_STREAM_LIMIT,
  isDefaultStream,
  type StreamHandle,
} from '../../foundation/driver/handle-types.js'

export interface StreamTrack {
  readonly index: number
  readonly handle: StreamHandle
  /** The driver's number for the stream, or its handle if the driver does not say the number. */
  readonly id: bigint
  readonly device: number
  readonly context: ContextHandle
  readonly nonBlocking: boolean
  readonly priority: number
  /** The multiprocessors of the stream's green context, if it is in one. */
  readonly multiprocessors?: number | undefined
  /** The name of the stream. A stream may get one later, and the track keeps it when the stream is destroyed. */
  name: string
}

export interface Described extends Omit<StreamTrack, 'index' | 'handle' | 'name'> {
  /** Whether the driver did not say all of it now, and should be asked again the next time. */
  readonly isProvisional: boolean
}

export class StreamTracks {
  readonly all: StreamTrack[] = []
  readonly #byHandle = new Map<StreamHandle, StreamTrack>()
  readonly #byId = new Map<string, StreamTrack>()
  /** The track that was found last: a program often makes several calls with one stream. */
  #last: StreamTrack | undefined

  constructor(
    private readonly driver: Driver,
    private readonly describe: (stream: StreamHandle) => Described,
  ) {}

  of(handle: StreamHandle): StreamTrack {
    return this.known(handle) ?? this.#open(handle)
  }

  /** The track of a stream of other code, of which only CUPTI's number is known. */
  foreign(device: number, number: number): StreamTrack {
    const id = BigInt(number)
    const known = this.all.find((track) => track.handle === NO_HANDLE && track.device === device && track.id === id)
    if (known !== undefined) return known
    const described = { id, device, context: 0 as ContextHandle, nonBlocking: true, priority: 0 }
    const track = { index: this.all.length, handle: NO_HANDLE, ...described, name: `foreign stream ${number}` }
    this.all.push(track)
    return track
  }

  /** The track of a stream; undefined if nothing of it was recorded yet. */
  known(handle: StreamHandle): StreamTrack | undefined {
    if (this.#last?.handle === handle) return this.#last
    const known = this.#byHandle.get(handle)
    if (known !== undefined) this.#last = known
    return known
  }

  /** Takes the name that a stream has got. */
  named(device: number, id: bigint, name: string): void {
    const track = this.#byId.get(keyOf(device, id))
    if (track !== undefined) track.name = name
  }

  /** Forgets a handle that may come to mean another stream. */
  forget(handle: StreamHandle): void {
    this.#byHandle.delete(handle)
    this.#last = undefined
  }

  #open(handle: StreamHandle): StreamTrack {
    const { isProvisional, id, device, context, nonBlocking, priority, multiprocessors } = this.describe(handle)
    const key = keyOf(device, id)
    let track = this.#byId.get(key)
    if (track === undefined) {
      const name = nameOf(this.driver, { id, handle, multiprocessors })
      // The object is written without spreads, for which V8 would keep a description of the fields for each track.
      track = { index: this.all.length, handle, id, device, context, nonBlocking, priority, multiprocessors, name }
      this.all.push(track)
      this.#byId.set(key, track)
    }
    if (!isProvisional) this.#byHandle.set(handle, track)
    return track
  }
}

/** A handle above the tokens of default streams that no allocator returns. */
const NO_HANDLE = DEFAULT_STREAM_LIMIT as StreamHandle

const keyOf = (device: number, id: bigint): string => `${device} ${id}`

function nameOf(
  driver: Driver,
  { id, handle, multiprocessors }: Pick<StreamTrack, 'id' | 'handle' | 'multiprocessors'>,
): string {
  const given = givenName(driver, handle, id)
  if (given !== undefined) return given
  const share = multiprocessors === undefined ? '' : ` (${multiprocessors} multiprocessors)`
  return isDefaultStream(handle) ? defaultStreamName(handle) : `${numberedStream(handle, id)}${share}`
}
