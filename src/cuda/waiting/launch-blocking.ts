/**
 * `CUDA_LAUNCH_BLOCKING=1`: CUDA waits in each launch of a kernel or graph, and in copies within the device, until the whole device is idle
 * (measured: docs/internals/cuda-facts.md). A host function that is pending then could never run, as JavaScript is inside the launch. So
 * these calls first wait for the host functions that are pending, as all calls do in which CUDA waits for the device.
 */
import { process } from '../../foundation/base/node-modules.js'
import { warnOnce } from '../../foundation/base/warnings.js'
import { deadlock } from '../../foundation/driver/deadlocks.js'
import type { StreamHandle } from '../../foundation/driver/handle-types.js'
import type { QueuedWork } from '../../foundation/driver/queued-work.js'
import type { PendingHostFunctions } from '../host-functions/pending-host-functions.js'
import type { Blocking } from './blocking.js'

interface LaunchBlockingParts {
  readonly hostFunctions: Pick<PendingHostFunctions, 'exclusivelyNow'>
  readonly blocking: Pick<Blocking, 'exclusively'>
  readonly captures: (stream: StreamHandle) => boolean
  /** Has the instance of a graph that this work launches host functions of its own? */
  readonly runsHostFunctions: (work: QueuedWork) => boolean
}

/** CUDA takes any number but 0 for yes, and reads the variable once, when it starts. */
export const isLaunchBlocking = (): boolean =>
  (Number.parseInt(process.env['CUDA_LAUNCH_BLOCKING'] ?? '', 10) || 0) !== 0

export class LaunchBlocking {
  constructor(private readonly parts: LaunchBlockingParts) {}

  /** Calls `queue`, which queues the work. */
  queue(work: QueuedWork, queue: () => void): void {
    const { hostFunctions, blocking, captures, runsHostFunctions } = this.parts
    const streams = work.kind === 'library' ? work.calls.map(({ stream }) => stream) : [work.stream]
    if (streams.some(captures)) {
      queue()
      return
    }
    if (work.kind === 'hostFunction' || work.kind === 'promise') warnOnce('CUDA_STREAMS_LAUNCH_BLOCKING', WARNING)
    const what = WAITS[nameOf(work)]
    if (what === undefined) {
      queue()
      return
    }
    if (runsHostFunctions(work)) throw deadlock(what, HAS_HOST_FUNCTIONS)
    if (hostFunctions.exclusivelyNow(queue) === undefined) blocking.exclusively(queue, what)
  }
}

/** Copies between host and device wait for nothing. */
const nameOf = (work: QueuedWork): string =>
  work.kind !== 'copy' ? work.kind : work.name === 'copy' && work.route !== 'withinHost' ? 'copies' : 'transfer'

const SINCE = 'in which CUDA waits for the whole device since CUDA_LAUNCH_BLOCKING is set,'
const WAITS: Readonly<Record<string, string>> = {
  kernel: `a launch, ${SINCE}`,
  graph: `a launch of a graph, ${SINCE}`,
  copies: `a copy, ${SINCE}`,
  library: `a call of a library, ${SINCE}`,
}
const HAS_HOST_FUNCTIONS =
  'the graph has host functions, which run on the JavaScript thread, and the launch would block that. Unset CUDA_LAUNCH_BLOCKING'
const WARNING =
  'CUDA_LAUNCH_BLOCKING is set: in each launch of a kernel or graph CUDA blocks the JavaScript thread until the whole device is idle, and behind a host function or a promise it would never return. So each launch first runs the host functions that are pending, and is ERR_DEADLOCK where it would wait for a promise, for a host function that it is called in, or for one in its graph. Unset CUDA_LAUNCH_BLOCKING for such a program: to find an illegal memory access, run it with CUDA_STREAMS_DRIVER=sim, which names the thread and the line, or under compute-sanitizer'
