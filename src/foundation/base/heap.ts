/**
 * What the garbage collector of the run time is told of the memory of GPUs, and how it is asked what was forgotten. Both are for the CUDA driver: the
 * collector knows the memory of the simulator, and a program there must do the same each time.
 */

export interface Heap {
  /** Tells that objects of JavaScript hold so many bytes more outside of its heap, or less. */
  adjustExternalMemory(change: number): void
  /** A number for an object, which does not keep it reachable. */
  weakReference(object: object): number
  /** The object, or undefined once it was collected. */
  referent(reference: number): object | undefined
  deleteReference(reference: number): void
}

/** What a byte of a GPU weighs, as the collector counts those of the host: docs/internals/cuda-facts.md has the measurements. */
const WEIGHT = 1 / 16
/** The collector is told of changes of so many bytes of GPUs. */
const STEP = 2 ** 26
/** A number of bytes that is larger than any limit that V8 sets to the memory that objects hold. */
const MORE_THAN_ANY_LIMIT = 2 ** 40

let heap: Heap | undefined
/** Bytes of GPUs that objects of this thread hold, those that the collector counts, and those of them that it has found forgotten. */
let [held, counted, forgotten] = [0, 0, 0]

/** Called with the native layer of this thread, in a run time that has V8. */
export function useHeap(of: Heap): void {
  heap = of
}

/** An object of this thread that may be forgotten holds so many bytes of a GPU. */
export function holdMemory(bytes: number): void {
  held += bytes
  if (held - counted >= STEP) count(held - counted)
}

/**
 * Called when an object has freed so many bytes. A program that closes what it uses will use as much again, and no collection
 * should come of it: so the collector goes on to count them.
 */
export function releaseMemory(bytes: number): void {
  held -= bytes
}

/** Called when the collector has found objects forgotten that hold so many bytes. */
export function findForgotten(bytes: number): void {
  forgotten += bytes
  if (forgotten < STEP) return
  count(-Math.min(forgotten, counted))
  forgotten = 0
}

function count(change: number): void {
  counted += change
  heap?.adjustExternalMemory(change * WEIGHT)
}

/**
 * Collects all garbage, during the call. Returns false if that cannot be had. Twice: a collection that V8 has begun before keeps what was made since,
 * and the first one only ends that.
 */
export function collectNow(): boolean {
  if (heap === undefined) return false
  collectByWeight(heap)
  collectByWeight(heap)
  return true
}

/** V8 collects during the call that tells it of more than its limits allow. */
function collectByWeight(of: Heap): void {
  of.adjustExternalMemory(MORE_THAN_ANY_LIMIT)
  of.adjustExternalMemory(-MORE_THAN_ANY_LIMIT)
}

/** A reference that does not keep its object reachable. */
export interface Weak {
  deref(): object | undefined
  release?(): void
}

/**
 * A reference by which the object can be known to be collected after `collectNow()`; undefined where there is no use for it. Those of the native layer
 * know it at once; a WeakRef keeps its object reachable until the JavaScript that made it returns to the event loop.
 */
export function weakly(object: object): Weak | undefined {
  return heap === undefined ? undefined : new NativeWeak(heap, object)
}

class NativeWeak implements Weak {
  readonly #reference: number

  constructor(
    private readonly heap: Heap,
    object: object,
  ) {
    this.#reference = heap.weakReference(object)
  }

  deref(): object | undefined {
    return this.heap.referent(this.#reference)
  }

  release(): void {
    this.heap.deleteReference(this.#reference)
  }
}
