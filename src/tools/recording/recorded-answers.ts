/**
 * Answers calls as the driver did when they were recorded, and plays what happened meanwhile. It is used behind interceptors, to which a recording
 * looks like the program that it is of.
 */

import type { DeviceDriver } from '../../foundation/driver/device-driver.js'
import { StreamFlag } from '../../foundation/driver/driver-constants.js'
import type { Cancel, EventDriver, Settle } from '../../foundation/driver/event-driver.js'
import type { GraphDriver } from '../../foundation/driver/graph-driver.js'
import type {
  ContextHandle,
  EventHandle,
  GraphExecHandle,
  GraphHandle,
  NodeHandle,
  Pointer,
  StreamHandle,
} from '../../foundation/driver/handle-types.js'
import type { MemoryDriver } from '../../foundation/driver/memory-driver.js'
import type { QueuedWork, WorkDriver } from '../../foundation/driver/queued-work.js'
import type { SharingDriver } from '../../foundation/driver/sharing-driver.js'
import type { StreamDriver } from '../../foundation/driver/stream-driver.js'
import type { TextureDriver } from '../../foundation/driver/texture-driver.js'
import type { Interceptor } from '../../foundation/driver/wrappable-driver.js'
import type { Header, StreamFacts } from './lines.js'
import type { TimedCall } from './reader.js'

/** A call that threw when it was recorded. */
export class RecordedFailure extends Error {}

/** The rest of the recording. */
export interface Rest {
  /** The call that is played now. */
  readonly current: TimedCall
  /** Plays what happened until the call that is played now returned. Throws RecordedFailure if it threw. */
  playUntilReturn(): void
}

const nothing = (): void => {}

export class RecordedAnswers implements Interceptor {
  readonly name: 'cuda' | 'sim'
  /** The facts about each stream; keys are handles. */
  readonly facts = new Map<StreamHandle, StreamFacts>()
  /** The work that is played later; keys are the numbers of the calls that it belongs to. */
  readonly queued = new Map<number, QueuedWork>()
  readonly promises = new Map<number, Settle>()
  readonly #pinned = new Map<number, ArrayBuffer>()
  readonly #capturing = new Set<StreamHandle>()

  constructor(
    private readonly rest: Rest,
    private readonly header: Header,
  ) {
    this.name = header.driver
  }

  /** Writes to pinned memory the bytes that it had. */
  putBytes(pointer: number, hexadecimal: string): void {
    for (const [start, memory] of this.#pinned) {
      const offset = pointer - start
      if (offset < 0 || offset >= memory.byteLength) continue
      const bytes = new Uint8Array(memory)
      for (let at = 0; 2 * at < hexadecimal.length; at += 1) {
        bytes[offset + at] = Number.parseInt(hexadecimal.slice(2 * at, 2 * at + 2), 16)
      }
    }
  }

  readonly devices: Partial<DeviceDriver> = {
    count: () => this.header.devices.length,
    name: (device) => this.header.devices[device]?.name ?? '',
    context: () => {
      const { call } = this.rest.current
      return (call.call === 'deviceContext' ? call.context : 0) as ContextHandle
    },
    synchronize: () => {
      this.rest.playUntilReturn()
    },
    finished: (_device, settle) => this.#promised(settle),
    recordInternal: () => true,
    // A recording does not say which device has faulted.
    contextCheck: nothing,
  }

  readonly work: Partial<WorkDriver> = {
    queue: (work) => {
      const { number, call, more } = this.rest.current
      if (call.call !== 'queue') return
      if (work.kind === 'allocate' && call.work.kind === 'allocate') work.pointer = call.work.pointer as Pointer
      if (work.kind === 'kernel' && work.observer !== undefined && more.told === true) {
        work.observer.isTold = true
        this.queued.set(number, work)
      }
      if (work.kind === 'hostFunction' || work.kind === 'promise') this.queued.set(number, work)
    },
    drainHostFunctions: () => {
      this.rest.playUntilReturn()
    },
  }

  readonly streams = {
    create: () => {
      const { call } = this.rest.current
      return (call.call === 'createStream' ? call.stream : 0) as StreamHandle
    },
    destroy: (stream) => {
      this.#capturing.delete(stream)
    },
    wrap: (cudaHandle, near) => {
      const stream = (cudaHandle > 2 ? cudaHandle : near * 4 + cudaHandle) as StreamHandle
      const { device = near, context = 0 } = this.facts.get(stream) ?? {}
      return { stream, device, context: context as ContextHandle }
    },
    escaped: () => {},
    isEscaped: (stream) => this.facts.get(stream)?.escaped ?? true,
    getId: (stream) => BigInt(this.facts.get(stream)?.id ?? stream),
    getFlags: (stream) => (this.facts.get(stream)?.nonBlocking === false ? 0 : StreamFlag.NON_BLOCKING),
    getPriority: (stream) => this.facts.get(stream)?.priority ?? 0,
    isCapturing: (stream) => this.#capturing.has(stream),
    query: () => true,
    synchronize: () => {
      this.rest.playUntilReturn()
    },
    waitEvent: () => {},
    waitStream: () => {},
    finished: (_stream, _context, settle) => this.#promised(settle),
  } satisfies Partial<StreamDriver>

  readonly events = {
    create: () => this.#event(),
    openIpcHandle: () => this.#event(),
    destroy: () => {},
    recycle: () => {},
    wrap: () => undefined,
    record: () => {},
    recordInternal: () => {},
    query: () => true,
    synchronize: () => {
      this.rest.playUntilReturn()
    },
    finished: (_event, settle) => this.#promised(settle),
    elapsedTime: () => 0,
  } satisfies Partial<EventDriver>

  #promised(settle: Settle): Cancel {
    this.promises.set(this.rest.current.number, settle)
    return nothing
  }

  readonly memory: Partial<MemoryDriver> = {
    allocatePinned: (byteLength) => {
      const pointer = this.#pointer()
      const bytes = new ArrayBuffer(byteLength)
      this.#pinned.set(pointer, bytes)
      return { pointer, bytes }
    },
    registerPinned: (bytes) => {
      const pointer = this.#pointer()
      if (bytes.buffer instanceof ArrayBuffer) this.#pinned.set(pointer, bytes.buffer)
      return pointer
    },
    closePinned: (pointer) => void this.#pinned.delete(pointer),
    placeOf: () => ({ device: 0, isOfHost: false }),
    viewed: nothing,
  }

  #event(): EventHandle {
    const { call } = this.rest.current
    return (call.call === 'createEvent' || call.call === 'openEvent' ? call.event : 0) as EventHandle
  }

  #pointer(): Pointer {
    const { call } = this.rest.current
    return ('pointer' in call ? call.pointer : 0) as Pointer
  }

  readonly sharing: Partial<SharingDriver> = {
    allocate: () => this.#pointer(),
    free: nothing,
    importMemory: () => ({ pointer: 0 as Pointer, byteLength: 0, close: nothing }),
    watchShared: () => undefined,
    watchReceived: () => false,
  }

  readonly textures: Partial<TextureDriver> = {
    createArray: () => this.#pointer(),
    destroyArray: nothing,
    destroyTexture: nothing,
    destroySurface: nothing,
  }

  readonly graphs: Partial<GraphDriver> = {
    begin: (stream) => void this.#capturing.add(stream),
    beginInto: (stream) => void this.#capturing.add(stream),
    addConditional: () => {
      const { call } = this.rest.current
      return (call.call === 'addConditional' ? call.bodies : []) as readonly GraphHandle[]
    },
    addToBody: () => {
      const { call } = this.rest.current
      return new Map((call.call === 'addToBody' ? call.copies : []) as readonly (readonly [NodeHandle, NodeHandle])[])
    },
    end: (stream) => {
      this.#capturing.delete(stream)
      const { call } = this.rest.current
      if (call.call !== 'endCapture') throw new RecordedFailure()
      return call.graph as GraphHandle
    },
    abandon: (stream) => void this.#capturing.delete(stream),
    capturedNode: () => this.rest.current.more.node as NodeHandle | undefined,
    destroy: nothing,
    instantiate: () => {
      const { call } = this.rest.current
      return (call.call === 'instantiate' ? call.exec : 0) as GraphExecHandle
    },
    destroyExec: nothing,
    update: nothing,
    updateNode: nothing,
    setEnabled: nothing,
  }
}
