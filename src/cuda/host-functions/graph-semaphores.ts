/**
 * Host functions inside graphs. The node of a graph is launched many times with the same numbers, so its semaphore resets itself: the GPU
 * writes "waiting", waits for "signalled", and clears "signalled". Each instance of a graph has semaphores of its own, since two instances may
 * run at once.
 */
import { stateError } from '../../foundation/base/errors.js'
import type { ContextHandle, Pointer } from '../../foundation/driver/handle-types.js'
import type { HostFunction } from '../../foundation/driver/queued-work.js'
import type { GraphNodes } from '../graph-nodes.js'
import type { Library } from '../libcuda/libcuda.js'
import {
  type PendingCall,
  SEMAPHORES,
  Semaphore,
  type SemaphoreMemory,
  type SemaphoreStream,
  siteOf,
  WaitUntil,
} from './semaphores.js'

const OPERATIONS = 3

/** A host function that was captured, and the node that it became. */
export interface CapturedHostFunction {
  readonly node: number
  readonly host: HostFunction
  /** The node is in a graph within the graph. */
  readonly isWithin?: boolean
}

export class GraphSemaphores {
  /**
   * Released semaphores, in the order in which they are used again: one that was just signalled must not be used again at once.
   */
  readonly #released: number[] = []
  /** Captured host functions use this one until their graph is instantiated. */
  #placeholder: number | undefined
  /** The word that nothing reads, by context. A fill of a graph may only write memory of its own device. */
  readonly #unread = new Map<ContextHandle, Pointer>()

  constructor(
    private readonly library: Library,
    private readonly nodes: Pick<GraphNodes, 'setOperations'>,
    private readonly memory: SemaphoreMemory,
    private readonly allocate: (byteLength: number, context: ContextHandle) => Pointer,
  ) {}

  /** Queues the operations on a capturing stream, where they become a node. Returns a CUresult. */
  capture(raw: number): number {
    this.#placeholder ??= this.#take()
    return this.library.cuStreamBatchMemOp_v2(raw, OPERATIONS, this.#describe(this.#placeholder), 0)
  }

  /** The address of a byte that may be written in a context, and is never read. */
  unreadByte(context: ContextHandle): Pointer {
    const known = this.#unread.get(context)
    if (known !== undefined) return known
    const byte = this.allocate(1, context)
    this.#unread.set(context, byte)
    return byte
  }

  /** Gives the captured host functions of a graph semaphores of their own, which belong to the instance that is made from it next. */
  arm(context: ContextHandle, captured: readonly CapturedHostFunction[]): GraphSemaphore[] {
    const semaphores: GraphSemaphore[] = []
    try {
      for (const { node, host } of captured) {
        const index = this.#take()
        semaphores.push(new GraphSemaphore(context, this.memory, index, host, () => this.#released.push(index)))
        this.nodes.setOperations(node, context, this.#describe(index), OPERATIONS)
      }
      return semaphores
    } catch (error) {
      for (const semaphore of semaphores) semaphore.destroy()
      throw error
    }
  }

  #take(): number {
    const index = this.memory.take() ?? this.#released.shift()
    if (index === undefined) {
      const what = `There are ${SEMAPHORES} host functions in graphs, which are all that a GPU has semaphores for`
      throw stateError('ERR_UNSUPPORTED', `${what}: close instances of graphs that are not launched any more`)
    }
    return index
  }

  #describe(index: number): number {
    return this.memory.describe(index, [
      { write: 'waiting', value: 1 },
      { waitUntil: WaitUntil.EQUAL, value: 1 },
      { write: 'signalled', value: 0 },
    ])
  }
}

/** The semaphore of one host function in one instance of a graph. */
export class GraphSemaphore extends Semaphore {
  #launches = 0
  #isDestroyed = false

  constructor(
    context: ContextHandle,
    memory: SemaphoreMemory,
    index: number,
    private readonly host: HostFunction,
    private readonly release: () => void,
  ) {
    super(context, memory, index)
  }

  /** The call of one more launch of the graph. */
  next(stream: SemaphoreStream): PendingCall {
    this.#launches += 1
    const sequence = this.#launches
    const call = { semaphore: this, stream, sequence, host: this.host, site: siteOf(sequence), wait: undefined }
    if (this.calls.length === 0) this.label(call)
    return call
  }

  /** The instance of the graph is destroyed. Launches of it may still be pending. */
  destroy(): void {
    this.#isDestroyed = true
    if (this.calls.length === 0) this.release()
  }

  override isWaitingFor(): boolean {
    return this.memory.waiting(this.index) === 1
  }

  override signal(): void {
    this.memory.setWaiting(this.index, 0)
    this.memory.signal(this.index, 1)
  }

  override emptied(): void {
    if (this.#isDestroyed) this.release()
  }
}
