/** Describes, for warnings, what blocks work and can be ended by this thread alone. */
import {
  canonicalStream,
  cudaHandleOf,
  deviceOfDefaultStream,
  isDefaultStream,
  type StreamHandle,
} from './handle-types.js'

function describeStream(stream: StreamHandle): string {
  if (!isDefaultStream(stream)) return `the stream 0x${stream.toString(16)}`
  const which = cudaHandleOf(canonicalStream(stream)) === 0 ? 'null' : 'per-thread default'
  return `the ${which} stream of device ${deviceOfDefaultStream(stream)}`
}

const ENDS = {
  'a host function': 'which runs in a turn of the event loop',
  'a latch': 'which blocks until its open() is called',
  'a wait for a value': 'which blocks until the value is written',
  'work of another thread': 'which that thread has to do',
  'a promise': 'which the stream waits for until it settles',
} as const

/** `site` is the line of the program that queued it, if that is known. */
export function blockedBy(what: keyof typeof ENDS, stream: StreamHandle, site: string | undefined): string {
  return `${what} on ${describeStream(stream)}${site === undefined ? '' : ` (queued at ${site})`}, ${ENDS[what]}`
}
