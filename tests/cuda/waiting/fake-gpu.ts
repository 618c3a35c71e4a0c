/** The CUDA driver's waiting, with its own semaphores, on fake streams and a clock that the test moves. */
import type { TestContext } from 'node:test'
import { Dependencies } from '../../../src/cuda/host-functions/dependencies.js'
import { singleThread } from '../../../src/cuda/host-functions/process-registry.js'
import { SEMAPHORES, Semaphores } from '../../../src/cuda/host-functions/semaphores.js'
import { clock } from '../../../src/foundation/base/event-loop.js'
import type { ContextHandle, EventHandle, StreamHandle } from '../../../src/foundation/driver/handle-types.js'
import { AnyStreams } from '../fake-parts.js'
import { nothingCaptures, waitingOf } from './waiting-parts.js'

export const DEADLOCK_AFTER = 10_000
/** Stream handles begin here; those below are default streams'. */
const FIRST_STREAM = 0x10000

/** What a stream holds: it goes on when this says so. */
type Item = () => boolean

export class FakeGpu {
  /** Milliseconds: passes while somebody waits. */
  clock = 0
  readonly #waiting: ReturnType<typeof waitingOf>
  /** Host functions that JavaScript is inside of, and the most that there were at one time. */
  readonly depth = { now: 0, most: 0 }
  readonly #streams = new Map<number, { readonly items: Item[]; readonly context: ContextHandle }>()
  readonly #events = new Map<EventHandle, () => boolean>()

  constructor(t: TestContext, deadlockAfter = DEADLOCK_AFTER) {
    t.mock.method(clock, 'now', () => this.clock)
    const words = { waiting: new Map<number, number>(), signalled: new Map<number, number>() }
    let semaphoresTaken = 0
    let described = { semaphore: 0, sequence: 0 }
    const memory = {
      sequences: new Int32Array(SEMAPHORES),
      take: () => {
        semaphoresTaken += 1
        return semaphoresTaken
      },
      release: () => {},
      waiting: (semaphore: number) => words.waiting.get(semaphore) ?? 0,
      signal: (semaphore: number, sequence: number) => words.signalled.set(semaphore, sequence),
      label: () => {},
      describe(semaphore: number, [{ value }]: [{ value: number }]) {
        described = { semaphore, sequence: value }
      },
    }
    const library = {
      cuEventQuery: (event: EventHandle) => (this.#isDone(event) ? 0 : 600),
      cuCtxRecordEvent: (context: ContextHandle, event: EventHandle) => {
        const streams = [...this.#streams].filter(([, stream]) => stream.context === context)
        this.#events.set(event, this.#doneWith(streams.map(([raw]) => raw as StreamHandle)))
        return 0
      },
      cuStreamBatchMemOp_v2: (raw: number) => {
        const { semaphore, sequence } = described
        this.#queue(raw, () => {
          words.waiting.set(semaphore, sequence)
          return (words.signalled.get(semaphore) ?? 0) >= sequence
        })
        return 0
      },
    }
    const semaphores = new Semaphores(library as never, memory as never)
    const parts = {
      semaphores,
      library,
      deadlockAfter,
      streams: new AnyStreams((stream) => this.#context(stream)),
      dependencies: new Dependencies(() => false),
      spinWait: () => {
        this.clock += 1
      },
      relaxed: { run: (fn: () => unknown) => fn() },
      pool: { unrecorded: () => 0, take: () => 1, giveBack: () => {} },
      depth: {
        count: () => {},
        refresh: () => {},
        forget: () => {},
        semaphoreQueued: () => {},
        clear: () => {},
        hasCapacity: (_stream: number, _entries: number, isEmpty: () => boolean) => isEmpty(),
      },
      registry: singleThread(),
      isIdle: () => false,
      backOff: { sleep: () => {}, cancel: () => {} },
    }
    this.#waiting = waitingOf(parts)
  }

  /** A non-blocking stream. */
  stream(device = 0): StreamHandle {
    const stream = (FIRST_STREAM + this.#streams.size) as StreamHandle
    this.#streams.set(stream, { items: [], context: (device + 1) as ContextHandle })
    return stream
  }

  launchHostFunc(stream: StreamHandle, run: () => void): void {
    const { depth } = this
    const host = {
      runsAfterFault: false,
      run() {
        depth.now += 1
        depth.most = Math.max(depth.most, depth.now)
        run()
        depth.now -= 1
      },
    }
    this.#waiting.hostFunctions.queue(stream, stream, host)
  }

  busy(stream: StreamHandle, milliseconds: number): void {
    let end: number | undefined
    this.#queue(stream, () => {
      end ??= this.clock + milliseconds
      return this.clock >= end
    })
  }

  /** Holds the stream by a link that the library does not see. */
  hold(stream: StreamHandle, isOver: () => boolean): void {
    this.#queue(stream, isOver)
  }

  /** The first stream waits for all that the second holds. */
  wait(stream: StreamHandle, other: StreamHandle): void {
    const event = this.record(other)
    this.#waiting.hostFunctions.waitedForEvent(stream, event)
    this.#queue(stream, () => this.#events.get(event)?.() ?? true)
  }

  record(stream: StreamHandle): EventHandle {
    const event = (100 + this.#events.size) as EventHandle
    this.#events.set(event, this.#doneWith([stream]))
    this.#waiting.hostFunctions.recorded(event, stream, () => undefined)
    return event
  }

  synchronize(stream: StreamHandle): void {
    this.#waiting.blocking.forStream(stream, () => this.#isIdle(stream), nothingCaptures)
  }

  synchronizeEvent(event: EventHandle): void {
    this.#waiting.blocking.forEvent(event, () => this.#isDone(event))
  }

  synchronizeDevice(device: number): void {
    this.#waiting.blocking.forContext((device + 1) as ContextHandle, device)
  }

  /** As if the stream's hardware queue were full. */
  reserve(stream: StreamHandle): void {
    this.#waiting.blocking.forCapacity(stream, 1, () => this.#isIdle(stream))
  }

  /** Waits, outside of any host function, until all streams are idle. */
  drain(): void {
    for (const stream of this.#streams.keys()) this.synchronize(stream as StreamHandle)
  }

  #isDone(event: EventHandle): boolean {
    this.#goOn()
    return this.#events.get(event)?.() ?? true
  }

  #isIdle(stream: StreamHandle): boolean {
    this.#goOn()
    return this.#streams.get(stream)?.items.length === 0
  }

  /** Lets every stream go as far as it can. */
  #goOn(): void {
    for (let moved = true; moved; ) {
      moved = false
      for (const { items } of this.#streams.values()) {
        while (items[0]?.()) {
          items.shift()
          moved = true
        }
      }
    }
  }

  #queue(raw: number, item: Item): void {
    this.#streams.get(raw)?.items.push(item)
  }

  #context(stream: number): ContextHandle {
    return this.#streams.get(stream)?.context ?? (0 as ContextHandle)
  }

  /** Returns a function that tells whether everything in these streams now has completed. */
  #doneWith(streams: readonly StreamHandle[]): () => boolean {
    const last = streams.map((stream) => ({
      items: this.#streams.get(stream)?.items,
      item: this.#streams.get(stream)?.items.at(-1),
    }))
    return () => last.every(({ items, item }) => item === undefined || items?.includes(item) !== true)
  }
}
