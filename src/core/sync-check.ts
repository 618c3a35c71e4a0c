/**
 * CUDA_STREAMS_SYNC: a call that blocks the event loop is reported with its stack, or throws. A server that blocks in a
 * request handler delays all other requests, and the same line of a script does no harm: so what runs before the event loop
 * has turned may block. A kernel that is loaded at its first launch is reported even then: it could have been prepared. What was awaited to
 * be compiled is never reported, nor code that is loaded while no work has been queued, for which loading would have to wait.
 */
import { VARIABLES } from '../foundation/base/environment-variables.js'
import { stateError } from '../foundation/base/errors.js'
import { atNextTurn } from '../foundation/base/event-loop.js'
import { programLines, takeStack } from '../foundation/base/stack.js'
import { warnOnce } from '../foundation/base/warnings.js'
import type { Driver } from '../foundation/driver/driver.js'
import type { ModuleImage } from '../foundation/driver/kernel-driver.js'
import type { Interceptor, WrappableDriver } from '../foundation/driver/wrappable-driver.js'

const FRAMES = 40

let isIn = false

/** Puts the check in front of the driver, if the variable is set to do so. */
export function checkSyncAsEnvironmentSays(driver: WrappableDriver): void {
  const wanted = VARIABLES.sync.read()
  if (wanted === '0' || isIn) return
  isIn = true
  driver.wrap((next) => syncCheck(next, wanted === 'throw'))
}

function syncCheck(next: Driver, throws: boolean): Interceptor {
  let hasTurned = false
  let hasWorked = false
  /** What `prepare()` or `Program.compile()` made, and what was reported when it was compiled. */
  const known = new WeakSet<ModuleImage>()
  const noted = <I extends ModuleImage>(image: I): I => {
    known.add(image)
    return image
  }
  atNextTurn(() => {
    hasTurned = true
  }).unref()
  /** A call of the program is about to block. */
  const blocks = (call: string, instead: string, whenever = false): void => {
    if (!hasTurned && !whenever) return
    const what = `${call} blocks the event loop: nothing else of this thread runs until it returns. ${instead}`
    if (throws) throw stateError('ERR_BLOCKS_EVENT_LOOP', `${what} (${VARIABLES.sync.name}=throw)`)
    warnOnce('CUDA_STREAMS_SYNC', [what, ...programLines(takeStack(FRAMES))].join('\n    '))
  }
  return {
    devices: {
      synchronize(device) {
        blocks('device.synchronize()', 'Await device.finished() instead')
        next.devices.synchronize(device)
      },
    },
    streams: {
      synchronize(stream) {
        blocks('stream.synchronize()', 'Await stream.finished() instead')
        next.streams.synchronize(stream)
      },
    },
    events: {
      synchronize(event) {
        blocks('event.synchronize()', 'Await event.finished() instead')
        next.events.synchronize(event)
      },
    },
    work: {
      drainHostFunctions() {
        blocks('device.drainHostFunctions()', 'Await finished() of the streams instead')
        next.work.drainHostFunctions()
      },
      reserve(stream, entries) {
        if (!next.work.hasCapacity(stream, entries)) {
          blocks('queuing more work', 'Its hardware queue is full: await stream.finished() now and then')
        }
        next.work.reserve(stream, entries)
      },
      queue(work) {
        hasWorked = true
        next.work.queue(work)
      },
    },
    kernels: {
      compileNow(source) {
        blocks('loading a kernel at its first launch', 'Await kernel.prepare(device) before', true)
        return noted(next.kernels.compileNow(source))
      },
      async compile(source) {
        return noted(await next.kernels.compile(source))
      },
      load(image, context) {
        if (hasWorked && !known.has(image)) {
          blocks('loading code, which waits for the whole device,', 'Load it before work is queued')
        }
        return next.kernels.load(image, context)
      },
    },
  }
}
