/** Records of streams for tests of the driver's parts: a handle that is not known yet is a non-blocking stream of the library. */
import { StreamRecord, StreamRecords } from '../../../src/driver/cuda/stream-records.js'
import { type ContextHandle, isDefaultStream, StreamFlag, type StreamHandle } from '../../../src/driver/driver.js'

/** The context of a device is its ordinal and one. */
const contexts = {
  primary: (device: number) => (device + 1) as ContextHandle,
  deviceOf: (context: ContextHandle) => context - 1,
}

export class AnyStreams extends StreamRecords {
  constructor(private readonly contextOf: (stream: StreamHandle) => ContextHandle = () => contexts.primary(0)) {
    super(contexts)
  }

  override get(stream: StreamHandle): StreamRecord | undefined {
    const known = super.get(stream)
    if (known !== undefined || isDefaultStream(stream)) return known
    return this.created(stream, this.contextOf(stream), StreamFlag.NON_BLOCKING)
  }
}

/** Any stream, not blocking. */
export function anyStream(handle = 0x1000): StreamRecord {
  return new StreamRecord(handle as StreamHandle, contexts.primary(0), 0, 'library')
}
