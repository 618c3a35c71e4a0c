/** Intercepts the calls that order work or touch memory, and writes them down. */

import { givenName } from '../../core/stream-names.js'
import { atNextTurn, type Turn } from '../../foundation/base/event-loop.js'
import type { Driver, DriverParts } from '../../foundation/driver/driver.js'
import type { Cancel, InternalEvent, Settle } from '../../foundation/driver/event-driver.js'
import type { EventHandle, StreamHandle } from '../../foundation/driver/handle-types.js'
import type { LaunchObserver } from '../../foundation/driver/kernel-driver.js'
import type {
  QueuedHostFunction,
  QueuedKernel,
  QueuedPromiseWait,
  QueuedWork,
} from '../../foundation/driver/queued-work.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import type { Interceptor } from '../../foundation/driver/wrappable-driver.js'
import type { TimelineInterceptor } from '../timeline/timeline-interceptor.js'
import type { StreamTrack } from '../timeline/tracks.js'
import { WorkFacts } from '../timeline/work-facts.js'
import { applied, argumentsOf, callsOf, type DriverCall, type Row } from './call-table.js'
import { Durations } from './durations.js'
import { FollowedBytes } from './followed-bytes.js'
import type { Journal } from './journal.js'
import type { CallDetails, RecordedCall } from './lines.js'
import { type RecordedWork, recorded, recordedNode } from './work-table.js'

/** The number of calls between two checks of which operations have ended. */
const CALLS_PER_LOOK = 4096

export class RecordingInterceptor implements Interceptor {
  readonly durations: Durations
  /** The streams whose facts have been written, with their tracks. */
  readonly #streams = new Map<StreamHandle, StreamTrack>()
  /** The number of captures under way. */
  #captures = 0
  readonly #bytes: FollowedBytes
  readonly #facts: WorkFacts
  #nextLook = CALLS_PER_LOOK
  #turn: Turn | undefined

  constructor(
    private readonly next: Driver,
    private readonly timing: TimelineInterceptor,
    private readonly journal: Journal,
  ) {
    this.durations = new Durations(timing, journal)
    this.#facts = new WorkFacts(next)
    this.#bytes = new FollowedBytes(journal)
  }

  readonly work = this.#recorded('work', {
    queue: (work) => {
      if (this.#captures === 0 && this.durations.isFull) this.journal.aside(() => this.durations.renew())
      const handle = work.kind === 'library' ? work.calls[0]?.stream : work.stream
      if (handle !== undefined) this.#isUsed(handle)
      if (work.kind === 'library') for (const { stream } of work.calls) this.#isUsed(stream)
      if (work.kind === 'waitValue' || work.kind === 'writeValue') this.#bytes.followWord(work.word.pointer)
      this.#bytes.note()
      /** The number of this call, once it is known. */
      const call = { number: -1 }
      const watched = this.#watched(work, call)
      this.durations.begin()
      const began = this.durations.now()
      this.next.work.queue(watched.work)
      const ended = this.durations.now()
      if (work.kind === 'free') this.#facts.freed()
      const more = this.#captured(work, handle, watched.isTold())
      call.number = this.journal.call({ call: 'queue', work: this.#described(work) }, began, ended, more)
      this.durations.end(call.number)
      if (work.kind === 'promise') this.#watchRelease(work, call.number)
      if (work.kind === 'hostFunction' && work.call.internal !== true) this.#watchTurn()
      if (call.number < this.#nextLook) return
      this.#nextLook = call.number + CALLS_PER_LOOK
      if (this.#captures === 0) this.journal.aside(() => this.durations.collect())
    },
  })

  /** Notes that a name was given to a stream. */
  named(stream: StreamHandle, name: string): void {
    this.#at({ call: 'nameStream', stream, name })
  }

  /** Notes that the program declared what another library has queued. */
  declaredAccess(stream: StreamHandle, memory: readonly TouchedMemory[], what: string): void {
    this.#isUsed(stream)
    this.#at({ call: 'declareAccess', stream, what, memory })
  }

  declaredWait(stream: StreamHandle, event: EventHandle): void {
    this.#isUsed(stream)
    this.#at({ call: 'wait', stream, event, external: 0 })
  }

  declaredStreamWait(stream: StreamHandle, other: StreamHandle): void {
    this.#isUsed(stream)
    this.#isUsed(other)
    this.#at({ call: 'waitStream', stream, other, context: 0 })
  }

  /** Writes the times that are known by now; to be called now and then. */
  look(): void {
    this.journal.aside(() => {
      if (this.#captures === 0) this.durations.collect()
      this.journal.flush()
    })
  }

  #watched(work: QueuedWork, call: { readonly number: number }): { work: QueuedWork; isTold: () => boolean } {
    if (work.kind === 'hostFunction') return { work: this.#watchedHostFunction(work, call), isTold: () => false }
    if (work.kind !== 'kernel' || this.next.name !== 'sim') return { work, isTold: () => false }
    return this.#watchedKernel(work, call)
  }

  #watchedHostFunction(work: QueuedHostFunction, call: { readonly number: number }): QueuedWork {
    const { run } = work.call
    const watched = (status: number): void => {
      const more = status === 0 ? { op: call.number } : { op: call.number, failed: true as const }
      this.#bytes.note()
      this.#open({ call: 'host' }, more)
      try {
        run(status)
      } finally {
        this.#close()
      }
    }
    return { ...work, call: { ...work.call, run: watched } }
  }

  /** Records what the simulator reports of a kernel: the memory that it has touched, and what a GPU leaves undefined. */
  #watchedKernel(work: QueuedKernel, call: { readonly number: number }): { work: QueuedWork; isTold: () => boolean } {
    const { observer: theirs } = work
    const observer: LaunchObserver = {
      isTold: false,
      ran: (memory, mistakes) => {
        const told = { op: call.number, mistakes, ...(memory === undefined ? {} : { memory }) }
        this.#at({ call: 'ran' }, told)
        theirs?.ran(memory, mistakes)
      },
    }
    const isTold = (): boolean => {
      if (theirs !== undefined) theirs.isTold = observer.isTold
      return observer.isTold
    }
    return { work: { ...work, observer }, isTold }
  }

  #described(work: QueuedWork): RecordedWork {
    const described = recorded(work)
    if (described.kind === 'copy') {
      const [to, from] = [this.#facts.isOfHost(described.destination), this.#facts.isOfHost(described.source)]
      return to === from ? described : { ...described, engine: to ? 'toHost' : 'toDevice' }
    }
    if (work.kind !== 'kernel' || described.kind !== 'kernel' || this.next.name === 'sim') return described
    return { ...described, blocksAtOnce: this.#facts.blocksAtOnce(work) }
  }

  #watchRelease(work: QueuedPromiseWait, op: number): void {
    const { release } = work
    work.release = () => {
      this.#bytes.note()
      this.#at({ call: 'release' }, { op })
      release()
    }
  }

  #watchTurn(): void {
    this.#turn ??= atNextTurn(() => {
      this.#turn = undefined
      this.#at({ call: 'turn' })
    }).unref()
  }

  /** The node that a capture has made of the work. */
  #captured(work: QueuedWork, stream: StreamHandle | undefined, told: boolean): CallDetails | undefined {
    if (this.#captures === 0 || stream === undefined) return told ? { told } : undefined
    let isCaptured: boolean
    try {
      isCaptured = this.next.streams.isCapturing(stream)
    } catch {
      isCaptured = true
    }
    if (!isCaptured) return told ? { told } : undefined
    const hasNode = work.kind === 'kernel' || work.kind === 'copy' || work.kind === 'fill'
    const node = hasNode ? this.next.graphs.capturedNode(stream) : undefined
    return { captured: true, ...(told ? { told } : {}), ...(node === undefined ? {} : { node }) }
  }

  /** Writes the facts about a stream that is used for the first time. */
  #isUsed(handle: StreamHandle): void {
    const track = this.timing.writer.tracks.of(handle)
    const known = this.#streams.get(handle)
    if (known === track || (known?.id === track.id && known.device === track.device)) return
    this.#streams.set(handle, track)
    const { id, device, context, nonBlocking, priority, multiprocessors, name } = track
    const escaped = this.next.streams.isEscaped(handle)
    const given = givenName(this.next, handle, id) !== undefined
    const facts = { stream: handle, device, context, id: String(id), nonBlocking, priority, escaped, name, given }
    this.journal.object(multiprocessors === undefined ? facts : { ...facts, multiprocessors })
  }

  #forget(handle: StreamHandle): void {
    this.#streams.delete(handle)
  }

  #at(call: RecordedCall, more?: CallDetails, stacked = true): number {
    const now = this.durations.now()
    return this.journal.call(call, now, now, more, stacked)
  }

  #made<R>(call: (result: R) => RecordedCall | undefined, make: () => R, stacked = true): R {
    const began = this.durations.now()
    const result = make()
    const made = call(result)
    if (made !== undefined) this.journal.call(made, began, this.durations.now(), undefined, stacked)
    return result
  }

  /** Writes that a call begins, during which others may be made. */
  #open(call: RecordedCall, more?: CallDetails): void {
    this.#at(call, more)
  }

  #close(failed = false): void {
    this.#bytes.note()
    this.#at({ call: 'return' }, failed ? { failed: true } : undefined, false)
  }

  #blocked(call: RecordedCall, wait: () => void): void {
    this.#bytes.note()
    this.#open(call)
    // The event loop does not turn meanwhile, and the process may be killed.
    this.journal.flushIfDue()
    let failed = true
    try {
      wait()
      failed = false
    } finally {
      this.#close(failed)
    }
  }

  /** The methods of a part that are recorded, as the table has them; those that do more are given. */
  #recorded<P extends keyof DriverParts>(part: P, given: Partial<DriverParts[P]> = {}): Partial<DriverParts[P]> {
    const methods = { ...given }
    for (const call of callsOf(part)) {
      if (call.method in methods) continue
      Reflect.set(methods, call.method, (...args: readonly unknown[]) => this.#byTable(call, args))
    }
    return methods
  }

  #byTable(call: DriverCall, args: readonly unknown[]): unknown {
    const { row } = call
    for (const name of row.uses ?? []) this.#isUsed(args[argumentsOf(row).indexOf(name)] as StreamHandle)
    if (row.written === 'blocks') {
      this.#blocked(written(row, args), () => applied(this.next, call, args))
      return undefined
    }
    return this.#made(
      (result) => (row.written === 'true' && result !== true ? undefined : written(row, args, result)),
      () => applied(this.next, call, args),
      row.isQuiet !== true,
    )
  }

  readonly devices = this.#recorded('devices', {
    finished: (device, settle) =>
      this.#awaited({ call: 'deviceFinished', device }, settle, (told) => this.next.devices.finished(device, told)),
  })

  readonly streams = this.#recorded('streams', {
    create: (context, flags, priority) => {
      const began = this.durations.now()
      const stream = this.next.streams.create(context, flags, priority)
      const ended = this.durations.now()
      this.#forget(stream)
      this.#isUsed(stream)
      this.journal.call({ call: 'createStream', stream, context, flags }, began, ended)
      return stream
    },
    destroy: (stream) => {
      this.#made(
        () => ({ call: 'destroyStream', stream }),
        () => this.next.streams.destroy(stream),
        false,
      )
      this.#forget(stream)
    },
    wrap: (cudaHandle, near) => {
      const wrapped = this.next.streams.wrap(cudaHandle, near)
      const { stream, device } = wrapped
      this.#forget(stream)
      this.#isUsed(stream)
      this.#at({ call: 'wrapStream', stream, cuda: cudaHandle, device })
      return wrapped
    },
    escaped: (stream) => {
      this.next.streams.escaped(stream)
      this.#at({ call: 'escaped', stream }, undefined, false)
    },
    finished: (stream, context, settle) => {
      this.#isUsed(stream)
      return this.#awaited({ call: 'streamFinished', stream, context }, settle, (told) =>
        this.next.streams.finished(stream, context, told),
      )
    },
  })

  readonly events = this.#recorded('events', {
    finished: (event, settle) =>
      this.#awaited({ call: 'eventFinished', event }, settle, (told) => this.next.events.finished(event, told)),
  })

  #awaited(call: RecordedCall, settle: Settle, start: (settle: Settle) => Cancel): Cancel {
    this.#bytes.note()
    const began = this.durations.now()
    const number = { op: -1 }
    let isOver = false
    const cancel = start((error) => {
      this.#bytes.note()
      if (!isOver)
        this.#at({ call: 'settled' }, error === undefined ? { op: number.op } : { op: number.op, failed: true }, false)
      isOver = true
      settle(error)
    })
    number.op = this.journal.call(call, began, this.durations.now())
    return () => {
      if (!isOver) this.#at({ call: 'cancelled' }, { op: number.op }, false)
      isOver = true
      cancel()
    }
  }

  readonly memory = this.#recorded('memory', {
    allocatePinned: (byteLength, context) => {
      const pinned = this.#made(
        ({ pointer }) => ({ call: 'allocatePinned', pointer, byteLength }),
        () => this.next.memory.allocatePinned(byteLength, context),
      )
      this.#bytes.allocated(pinned.pointer, pinned.bytes)
      return pinned
    },
    registerPinned: (bytes, context) => {
      const registered = this.#made(
        (pointer) => ({ call: 'registerPinned', pointer, byteLength: bytes.length }),
        () => this.next.memory.registerPinned(bytes, context),
      )
      this.#bytes.allocated(registered, bytes)
      if (this.next.name === 'sim') this.#bytes.follow(registered, bytes.length)
      return registered
    },
    closePinned: (pointer, bytes, after) => {
      this.#bytes.closed(pointer)
      this.#facts.freed()
      this.#made(
        () => ({ call: 'closePinned', pointer, after: eventsOf(after) }),
        () => this.next.memory.closePinned(pointer, bytes, after),
      )
    },
    viewed: (pointer, byteLength) => {
      if (this.next.name === 'sim') this.#bytes.follow(pointer, byteLength)
      this.#bytes.note()
      this.#made(
        () => ({ call: 'viewed', pointer, byteLength }),
        () => this.next.memory.viewed(pointer, byteLength),
      )
    },
  })

  readonly sharing = this.#recorded('sharing', {
    free: (pointer, after) =>
      this.#made(
        () => ({ call: 'freeShared', pointer, after: eventsOf(after) }),
        () => this.next.sharing.free(pointer, after),
      ),
    importMemory: (handle, context) => {
      const imported = this.next.sharing.importMemory(handle, context)
      const close = (after: readonly InternalEvent[]): void => {
        imported.close(after)
        this.#at({ call: 'closeImported', after: eventsOf(after) })
      }
      return { ...imported, close }
    },
  })

  readonly textures = this.#recorded('textures', {
    destroyArray: (pointer, after) =>
      this.#made(
        () => ({ call: 'destroyArray', pointer, after: eventsOf(after) }),
        () => this.next.textures.destroyArray(pointer, after),
      ),
    destroyTexture: (texture, after) =>
      this.#made(
        () => ({ call: 'destroyTexture', after: eventsOf(after) }),
        () => this.next.textures.destroyTexture(texture, after),
      ),
    destroySurface: (surface, after) =>
      this.#made(
        () => ({ call: 'destroySurface', after: eventsOf(after) }),
        () => this.next.textures.destroySurface(surface, after),
      ),
  })

  readonly graphs = this.#recorded('graphs', {
    begin: (stream, mode) => {
      this.#isUsed(stream)
      this.#made(
        () => ({ call: 'beginCapture', stream }),
        () => this.next.graphs.begin(stream, mode),
      )
      this.#captures += 1
    },
    beginInto: (stream, mode, graph, after) => {
      this.#isUsed(stream)
      this.#made(
        () => ({ call: 'beginCaptureInto', stream, graph, after }),
        () => this.next.graphs.beginInto(stream, mode, graph, after),
      )
      this.#captures += 1
    },
    addToBody: (body, graph) =>
      this.#made(
        (copies) => ({ call: 'addToBody', body, graph, copies: [...copies] }),
        () => this.next.graphs.addToBody(body, graph),
      ),
    end: (stream) => {
      this.#captures = Math.max(0, this.#captures - 1)
      try {
        return this.#made(
          (graph) => ({ call: 'endCapture', stream, graph }),
          () => this.next.graphs.end(stream),
        )
      } catch (error) {
        this.#at({ call: 'captureFailed', stream })
        throw error
      }
    },
    abandon: (stream) => {
      this.#captures = Math.max(0, this.#captures - 1)
      this.#made(
        () => ({ call: 'abandonCapture', stream }),
        () => this.next.graphs.abandon(stream),
      )
    },
    updateNode: (exec, node, context, work) =>
      this.#made(
        () => ({ call: 'updateNode', exec, node, work: recordedNode(work) }),
        () => this.next.graphs.updateNode(exec, node, context, work),
      ),
  })
}

/** The call as the recording has it, with the fields that its row names. */
function written(row: Row, args: readonly unknown[], result?: unknown): RecordedCall {
  const call: Record<string, unknown> = { call: row.call }
  for (const field of row.fields) call[field] = field === row.result ? result : args[argumentsOf(row).indexOf(field)]
  // A row has the fields of its call, since the type of the call is made from it.
  return call as RecordedCall
}

const eventsOf = (events: readonly InternalEvent[]): readonly number[] => events.map(({ event }) => event)
