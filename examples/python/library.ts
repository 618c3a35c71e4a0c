/**
 * Another GPU library in this process, as far as the exchanges need it: one stream and two arrays of its own, and what
 * it does with a stream and memory of ours. Arrays hold 32-bit integers. Nothing here waits for the GPU, unless it says so.
 */
import type { PythonStreamLike, Stream } from 'cuda-streams'

/** What not every library can. */
export type Ability =
  /** Takes a stream of ours from an object with `__cuda_stream__`. */
  | 'wraps by protocol'
  /** Waits for an event of ours by its handle. */
  | 'waits for events'
  /** Its arrays name their stream in `__cuda_array_interface__`. */
  | 'names its stream'
  /** Brings kernels or compiles them, and not only copies and fills. */
  | 'computes'
  /** Heeds the stream that `__cuda_array_interface__` of our memory names. */
  | 'heeds our stream'
  /** Captures graphs, launches them on streams of ours, and can be captured there. */
  | 'captures'

/** What `__cuda_array_interface__` of an array says. */
export interface ArrayInterface {
  readonly pointer: bigint
  readonly byteLength: number
  /** The stream after whose work the array may be used; undefined where there is nothing to wait for, or it is not told. */
  readonly stream: bigint | undefined
}

export interface Library {
  readonly name: string
  readonly abilities: ReadonlySet<Ability>
  /** Keeps its stream and its arrays alive. */
  readonly owner: object
  /** The handle of its stream. */
  readonly stream: bigint
  /** Its stream as an object with `__cuda_stream__`. */
  readonly streamObject: PythonStreamLike
  /** Addresses of its arrays: the one that is exchanged, and the one that it copies into. */
  readonly mine: bigint
  readonly result: bigint

  /** Its array is filled, on its stream. */
  fill(value: number): void
  /** Its array is copied to its result, on its stream. */
  readMine(): void
  /** Records an event of its own on its stream; returns the event's handle. */
  record(): bigint
  /** Its stream waits for an event of ours. */
  waitForEvent(handle: bigint): void
  /** What `__cuda_array_interface__` of its array says. */
  arrayInterface(): ArrayInterface

  /** Wraps a stream of ours. */
  wrapStream(stream: Stream, by: 'handle' | 'protocol'): void
  /** Its own stream waits for the stream of ours that it wrapped, by its own means. */
  waitForWrapped(): void
  /**
   * Makes an array over memory of ours, from an object with `__cuda_array_interface__`; `stream` is the entry of that
   * name. A library that heeds it may wait here for that stream to be done.
   */
  wrapMemory(pointer: bigint, stream: bigint | undefined): void
  /** Our memory is copied to its result, on its stream. */
  readOurs(): void
  /** Our memory is filled on our stream, as it wrapped both. */
  fillOursOnWrapped(value: number): void
  /**
   * Where it captures: a graph that fills its array or, if so told, our memory. It is launched once, on its stream: a library may
   * make the instance only then.
   */
  captureFill(value: number, ours: boolean): void
  /** Where it captures: the graph is launched, on its stream or on the stream of ours that it wrapped. */
  launchCaptured(onWrapped: boolean): void
  /** Where it computes: the first `length` numbers of our memory become three times what they were, plus `value`. */
  transform(value: number, length: number): void
  /** Elsewhere: our memory in parts of `length` numbers, of which one is copied to the next. */
  copyPart(part: number, length: number): void
}
