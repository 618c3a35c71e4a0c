/**
 * CUDA keeps streams in blocks of a few dozen, and to begin another block it waits for the whole device: while a stream
 * stands at a host function that is forever (docs/cuda-facts.md). So before the first host function some streams are
 * made that nothing is queued on; while any is pending, one of them makes place for each stream that is wanted.
 */
import { stateError } from '../../../base/errors.js'
import { KEPT_DEVICES, KEPT_STREAMS } from '../host-functions/thread-slots.js'
import type { Threads } from '../host-functions/thread-table.js'
import { check } from '../libcuda/library.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'

const LEFT_FOR_HOST_FUNCTIONS = 16
/** Fewer than these are made more of when no host function is pending. */
const FEW = KEPT_STREAMS / 2
/** Places that are left for streams which other libraries make. */
const PLACES_FOR_OTHERS = 36
const NON_BLOCKING = 1

export interface StreamReserveParts extends LibcudaParts {
  readonly threads: Threads
  /** Makes a call that may wait for the device. Undefined where something stands that this thread ends; nothing was called. */
  readonly exclusivelyNow: <R>(call: () => R) => { readonly made: R } | undefined
  readonly rest: (nanosecondsWaited: number) => void
}

export class StreamReserve {
  /** Streams of the library itself that it has no use for now, by device. */
  readonly #lent = new Map<number, number[]>()

  constructor(private readonly parts: StreamReserveParts) {}

  /**
   * Makes the streams of devices that are new, or have few left; nothing where host functions are pending. The device may
   * stand at something that only the program ends, so it is done early, and seldom.
   */
  fillWhereNeeded(): void {
    const { contexts, threads, exclusivelyNow } = this.parts
    for (const [device, context] of contexts.primaries) {
      if (context === undefined || device >= KEPT_DEVICES || threads.kept.count(device) >= FEW) continue
      if (exclusivelyNow(() => this.fill(device)) === undefined) return
    }
  }

  /** To be called by a thread that has the right to make calls which wait for the device. */
  fill(device: number): void {
    const { contexts, threads } = this.parts
    if (threads.kept.count(device) >= KEPT_STREAMS) return
    this.making(() => contexts.within(contexts.primary(device), () => this.#fillOf(device)))
  }

  /** Makes a call that makes streams, while no other thread does. */
  making<R>(call: () => R): R {
    const { threads, rest } = this.parts
    while (!threads.makingStreams.take()) rest(Number.POSITIVE_INFINITY)
    return threads.makingStreams.during(call)
  }

  /**
   * Makes a call that makes so many streams on this device, though host functions are pending: in the places of kept ones.
   * Undefined where there are not enough, and nothing was called. Some are left for calls inside a host function:
   * they cannot wait for it.
   */
  inPlaces<R>(
    device: number,
    streams: number,
    insideHostFunction: boolean,
    call: () => R,
  ): { readonly made: R } | undefined {
    const { threads } = this.parts
    const wanted = streams + (insideHostFunction ? 0 : LEFT_FOR_HOST_FUNCTIONS)
    return this.making(() => {
      if (threads.kept.count(device) < wanted) return undefined
      for (let left = streams; left > 0; left -= 1) this.#makePlace(device)
      return { made: call() }
    })
  }

  wants(device: number): boolean {
    return this.parts.threads.kept.count(device) < KEPT_STREAMS
  }

  /** Keeps a stream that is not wanted any more, and that no work is on. False where enough are kept. */
  keep(device: number, stream: number): boolean {
    return this.parts.threads.kept.keep(device, stream)
  }

  /**
   * A non-blocking stream for the library itself, in the device's primary context, which is current; to be given back when
   * its work is done.
   * @throws ERR_UNSUPPORTED where none can be made, since host functions are pending
   */
  lend(device: number): number {
    const lent = this.#lent.get(device)?.pop()
    if (lent !== undefined) return lent
    const make = (): number => this.#make()
    const found = this.inPlaces(device, 1, true, make) ?? this.parts.exclusivelyNow(() => this.making(make))
    if (found === undefined) throw noneLeft()
    return found.made
  }

  giveBack(device: number, stream: number): void {
    const lent = this.#lent.get(device)
    if (lent === undefined) this.#lent.set(device, [stream])
    else lent.push(stream)
  }

  #fillOf(device: number): void {
    const { threads, library } = this.parts
    const places: number[] = []
    if (threads.kept.begins(device)) while (places.length < PLACES_FOR_OTHERS) places.push(this.#make())
    for (let left = KEPT_STREAMS - threads.kept.count(device); left > 0; left -= 1) {
      const stream = this.#make()
      if (!threads.kept.keep(device, stream)) places.push(stream)
    }
    for (const stream of places) library.cuStreamDestroy_v2(stream)
  }

  #makePlace(device: number): void {
    const { threads, library } = this.parts
    const kept = threads.kept.take(device)
    if (kept !== undefined) library.cuStreamDestroy_v2(kept)
  }

  #make(): number {
    const { library, memory } = this.parts
    check('cuStreamCreateWithPriority', library.cuStreamCreateWithPriority(memory.address, NON_BLOCKING, 0))
    return memory.pointerAt(0)
  }
}

const noneLeft = (): Error =>
  stateError(
    'ERR_UNSUPPORTED',
    `The library needs a stream of its own, and while host functions are pending, or a stream stands at a value, CUDA makes no more than the ${KEPT_STREAMS} that were made before: let some host functions run first, or write the value`,
  )
