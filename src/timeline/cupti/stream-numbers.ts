/** Which lane a stream is, by CUPTI's number of it: CUPTI counts streams otherwise than the driver. */
import { cudaHandleOf, defaultStream, isDefaultStream, type StreamHandle } from '../../driver/driver.js'
import type { TimelineLane } from '../lanes.js'
import type { RowWriter } from '../row-writer.js'
import type { Activities } from './activities.js'
import type { Activity } from './records.js'

export class StreamNumbers {
  readonly #lanes = new Map<string, number>()
  /** The null streams: they become lanes where they were used. */
  readonly #nulls = new Map<string, StreamHandle>()

  constructor(
    activities: Activities,
    private readonly writer: RowWriter,
    devices: Iterable<number>,
  ) {
    const { driver, lanes } = writer
    for (const device of devices) {
      const stream = defaultStream(device, 0)
      const number = activities.numberOf(driver.deviceContext(device), stream)
      if (number !== undefined) this.#nulls.set(keyOf(device, number), stream)
    }
    for (const lane of lanes.all) {
      const number = isThere(writer, lane) ? activities.numberOf(lane.context, lane.handle) : undefined
      if (number !== undefined) this.#lanes.set(keyOf(lane.device, number), lane.index)
    }
  }

  /** An operation of this lane: the stream may have been closed since. */
  learn({ device, stream }: Activity, lane: number): void {
    this.#lanes.set(keyOf(device, stream), lane)
  }

  laneOf(activity: Activity): number {
    const { device, stream } = activity
    const { lanes } = this.writer
    const known = this.#lanes.get(keyOf(device, stream))
    if (known !== undefined) return known
    const handle = this.#nulls.get(keyOf(device, stream))
    const { index } = handle === undefined ? lanes.foreign(device, stream) : lanes.of(handle)
    this.learn(activity, index)
    return index
  }
}

const keyOf = (device: number, number: number): string => `${device} ${number}`

/** To ask about a stream that was destroyed crashes. */
function isThere({ driver, lanes }: RowWriter, lane: TimelineLane): boolean {
  if (lanes.known(lane.handle) !== lane) return false
  if (isDefaultStream(lane.handle)) return true
  try {
    driver.streamAdopt(cudaHandleOf(lane.handle), lane.device)
    return true
  } catch {
    return false
  }
}
