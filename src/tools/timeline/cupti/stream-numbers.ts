/** The tracks of streams by CUPTI's numbers: CUPTI counts streams otherwise than the driver. */
import {
  cudaHandleOf,
  defaultStream,
  isDefaultStream,
  type StreamHandle,
} from '../../../foundation/driver/handle-types.js'
import type { EventWriter } from '../event-writer.js'
import type { StreamTrack } from '../tracks.js'
import type { Activities } from './activities.js'
import type { Activity } from './records.js'

export class StreamNumbers {
  readonly #tracks = new Map<string, number>()
  /** The null streams, which become tracks when they turn out to be used; keys are made of device and CUPTI's number. */
  readonly #nulls = new Map<string, StreamHandle>()

  constructor(
    activities: Activities,
    private readonly writer: EventWriter,
    devices: Iterable<number>,
  ) {
    const { driver, tracks } = writer
    for (const device of devices) {
      const stream = defaultStream(device, 0)
      const number = activities.numberOf(driver.devices.context(device), stream)
      if (number !== undefined) this.#nulls.set(keyOf(device, number), stream)
    }
    for (const track of tracks.all) {
      const number = isThere(writer, track) ? activities.numberOf(track.context, track.handle) : undefined
      if (number !== undefined) this.#tracks.set(keyOf(track.device, number), track.index)
    }
  }

  /** Notes the track of an operation whose stream may have been closed since. */
  learn({ device, stream }: Activity, track: number): void {
    this.#tracks.set(keyOf(device, stream), track)
  }

  trackOf(activity: Activity): number {
    const { device, stream } = activity
    const { tracks } = this.writer
    const known = this.#tracks.get(keyOf(device, stream))
    if (known !== undefined) return known
    const handle = this.#nulls.get(keyOf(device, stream))
    const { index } = handle === undefined ? tracks.foreign(device, stream) : tracks.of(handle)
    this.learn(activity, index)
    return index
  }
}

const keyOf = (device: number, number: number): string => `${device} ${number}`

/** Whether the stream still exists: a query of a stream that was destroyed crashes. */
function isThere({ driver, tracks }: EventWriter, track: StreamTrack): boolean {
  if (tracks.known(track.handle) !== track) return false
  if (isDefaultStream(track.handle)) return true
  try {
    driver.streams.wrap(cudaHandleOf(track.handle), track.device)
    return true
  } catch {
    return false
  }
}
