/**
 * Keeps small copies in the null stream's order. CUDA reads the source of one from pinned memory at the call where the
 * copy's stream has nothing to do, although work that the null stream puts before the copy may still write there
 * (docs/cuda-facts.md). A record and a wait for it in front give the stream something to do for just as long.
 */
import type { StreamHandle } from '../../driver.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'
import type { StreamRecord } from '../stream-records.js'
import type { EventPool } from '../waiting/event-pool.js'

/** Seen up to 24 KiB, and not from 32 KiB on; another GPU may draw the line elsewhere. */
const MOST_READ_AT_THE_CALL = 65_536

export interface CopyOrderDriver {
  /** Does the null stream order it? Undefined while it captures. */
  isBlocking(stream: StreamRecord): boolean | undefined
}

export class CopyOrder {
  constructor(private readonly parts: LibcudaParts & { readonly pool: EventPool; readonly driver: CopyOrderDriver }) {}

  /** To be called in front of a copy, with the stream's context current. Returns a CUresult. */
  before(stream: StreamHandle, raw: number, byteLength: number): number {
    if (byteLength > MOST_READ_AT_THE_CALL) return 0
    const { library, pool, streams, driver } = this.parts
    const record = streams.of(stream)
    // What a graph copies is never read early.
    if ((record.isBlocking ?? driver.isBlocking(record)) !== true) return 0
    const event = pool.shared(record.context)
    return library.cuEventRecord(event, raw) || library.cuStreamWaitEvent(raw, event, 0)
  }
}
