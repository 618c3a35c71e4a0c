/**
 * Gives the trace of a process (`npx cuda-streams sanitize`) the lines of JavaScript that make each call: the trace finds those of Python by itself.
 */

import { provideInterceptor } from '../../core/environment-interceptors.js'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { checkWritableFolder } from '../../foundation/base/file-of-process.js'
import { process } from '../../foundation/base/node-modules.js'
import { programLines, takeStack } from '../../foundation/base/stack.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { EventDriver } from '../../foundation/driver/event-driver.js'
import type { MemoryDriver } from '../../foundation/driver/memory-driver.js'
import type { WorkDriver } from '../../foundation/driver/queued-work.js'
import type { StreamDriver } from '../../foundation/driver/stream-driver.js'
import type { Interceptor } from '../../foundation/driver/wrappable-driver.js'
import { injectionFile } from '../../foundation/native/layer.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { SharedLibrary } from '../../foundation/native/shared-library.js'

provideInterceptor(VARIABLES.trace.name, (driver, folder) => {
  if (driver.name !== 'cuda') return
  checkWritableFolder(folder, `${VARIABLES.trace.name}: a trace in ${folder}`)
  const lines = new CallLines()
  driver.wrap((next) => new TracedCalls(next, lines))
})

const FRAMES = 20
/** The number of texts that are kept, each of a place in the program. */
const MOST_TEXTS = 4096

class CallLines {
  readonly #tell = SharedLibrary.open(process.env['CUDA_INJECTION64_PATH'] ?? injectionFile()).functions({
    cuda_streams_site: 'const char *lines',
  }).cuda_streams_site
  readonly #texts = new Map<string, NativeMemory>()

  /** Makes a call of the driver, and gives the trace the program's lines that led to it. */
  during<R>(call: () => R): R {
    this.#tell(this.#here())
    try {
      return call()
    } finally {
      this.#tell(0)
    }
  }

  #here(): number {
    const stack = takeStack(FRAMES, this.during)
    const known = this.#texts.get(stack)
    if (known !== undefined) return known.address
    if (this.#texts.size >= MOST_TEXTS) {
      for (const text of this.#texts.values()) text.free()
      this.#texts.clear()
    }
    const text = NativeMemory.ofText(programLines(stack).join('\n'))
    this.#texts.set(stack, text)
    return text.address
  }
}

/** The calls that queue and order work. */
class TracedCalls implements Interceptor {
  constructor(
    private readonly next: Driver,
    private readonly lines: CallLines,
  ) {}

  readonly work: Partial<WorkDriver> = {
    queue: (work) => {
      this.lines.during(() => this.next.work.queue(work))
    },
  }

  readonly memory: Partial<MemoryDriver> = {
    allocatePinned: (byteLength, context) =>
      this.lines.during(() => this.next.memory.allocatePinned(byteLength, context)),
    registerPinned: (bytes, context) => this.lines.during(() => this.next.memory.registerPinned(bytes, context)),
  }

  readonly streams: Partial<StreamDriver> = {
    create: (context, flags, priority) => this.lines.during(() => this.next.streams.create(context, flags, priority)),
    waitEvent: (stream, event, external) => {
      this.lines.during(() => this.next.streams.waitEvent(stream, event, external))
    },
    waitStream: (stream, other, otherContext) => {
      this.lines.during(() => this.next.streams.waitStream(stream, other, otherContext))
    },
  }

  readonly events: Partial<EventDriver> = {
    record: (event, stream, external) => {
      this.lines.during(() => this.next.events.record(event, stream, external))
    },
  }
}
