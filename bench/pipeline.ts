/** A pipeline over three streams, ten operations for each item: what wrappers of the driver are timed with. */
import { type Device, type DeviceBuffer, type Event, type PinnedBuffer, Stream } from 'cuda-streams'

export const SLOTS = 4
const BYTES = 1024
/** Operations for each item. */
export const OPERATIONS = 10

interface Slot {
  readonly input: PinnedBuffer
  readonly data: DeviceBuffer
  readonly result: DeviceBuffer
  readonly output: PinnedBuffer
  readonly uploaded: Event
  readonly computed: Event
  readonly downloaded: Event
}

export interface Pipeline {
  readonly upload: Stream
  readonly compute: Stream
  readonly download: Stream
  readonly slots: readonly Slot[]
}

export function openPipeline(device: Device): Pipeline {
  const stream = (): Stream => new Stream({ device })
  const slot = (): Slot => ({
    input: device.allocPinned(BYTES),
    data: device.alloc(BYTES),
    result: device.alloc(BYTES),
    output: device.allocPinned(BYTES),
    uploaded: device.createEvent(),
    computed: device.createEvent(),
    downloaded: device.createEvent(),
  })
  const pipeline = {
    upload: stream(),
    compute: stream(),
    download: stream(),
    slots: Array.from({ length: SLOTS }, slot),
  }
  device.synchronize()
  return pipeline
}

/** Returns the nanoseconds in which the host only waited. `allocates`: each item has a new buffer, two operations more. */
export function runPipeline(
  { upload, compute, download, slots }: Pipeline,
  items: number,
  synchronizeEvery: number,
  allocates = false,
): number {
  let waited = 0n
  const synchronize = (): void => {
    const begin = process.hrtime.bigint()
    download.synchronize()
    waited += process.hrtime.bigint() - begin
  }
  for (let item = 0; item < items; item += 1) {
    const { input, data: kept, result, output, uploaded, computed, downloaded } = slots[item % SLOTS] as Slot
    const data = allocates ? upload.device.alloc(BYTES, { stream: upload }) : kept
    upload.wait(downloaded)
    upload.copy(data, input)
    upload.record(uploaded)
    compute.wait(uploaded)
    compute.fill(result, item % 256)
    compute.copy(result, data)
    compute.record(computed)
    download.wait(computed)
    download.copy(output, result)
    download.record(downloaded)
    if (allocates) data.close()
    if (item % synchronizeEvery === synchronizeEvery - 1) synchronize()
  }
  synchronize()
  return Number(waited)
}

export function closePipeline({ upload, compute, download, slots }: Pipeline): void {
  for (const { input, data, result, output } of slots) {
    for (const buffer of [input, data, result, output]) buffer.close()
  }
  for (const stream of [upload, compute, download]) stream.close()
}
