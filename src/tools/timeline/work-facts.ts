/** The facts of queued work by which a change of the program is predicted: the memory that it touches, and its place on the device. */
import type { Driver } from '../../foundation/driver/driver.js'
import type { GraphExecHandle, GraphHandle, Pointer } from '../../foundation/driver/handle-types.js'
import { memoryOf, type NodeWork, type QueuedKernel, type QueuedWork } from '../../foundation/driver/queued-work.js'
import { type TouchedMemory, touching } from '../../foundation/driver/touched-memory.js'
import { type DeviceSize, type Operation, shareOf } from '../prediction/run.js'

export interface WorkFact extends Pick<Operation, 'memory' | 'engine' | 'share' | 'sharesWithHost' | 'isPartlyKnown'> {
  /** The number of the instance of a graph that is launched. */
  readonly instance: number | undefined
}

/** The fact of work of which nothing is known but that it ran. */
export const UNKNOWN_FACT: WorkFact = {
  memory: undefined,
  engine: undefined,
  share: 0,
  sharesWithHost: false,
  isPartlyKnown: false,
  instance: undefined,
}

/** The numbers of properties in CUdevice_attribute. */
const MULTIPROCESSORS = 16
const THREADS_OF_MULTIPROCESSOR = 39
/** The number of shapes of launches and of places of memory that are remembered. */
const MOST_REMEMBERED = 4096
/** The kernels that the simulator runs at one time, whatever their size. */
const KERNELS_OF_SIMULATOR = 128

/** The facts that a recording in a file has of the work under way. */
export interface RecordedFacts {
  readonly engine?: 'toDevice' | 'toHost' | undefined
  readonly blocksAtOnce?: number | undefined
  readonly device?: DeviceSize | undefined
}

export class WorkFacts {
  /** Whether memory is the host's; keys are pointers. */
  readonly #places = new Map<Pointer, boolean>()
  /** The blocks that a multiprocessor runs at one time; keys are made of kernel and shape of a launch. */
  readonly #blocksAtOnce = new Map<string, number>()
  readonly #devices = new Map<number, DeviceSize>()
  /** The memory of the captures under way, and the number of them: of several at a time nothing is known. */
  #captured: TouchedMemory[] | undefined
  #captures = 0
  readonly #graphs = new Map<GraphHandle, readonly TouchedMemory[]>()
  readonly #execs = new Map<GraphExecHandle, readonly TouchedMemory[]>()

  constructor(private readonly driver: Driver) {}

  get isCapturing(): boolean {
    return this.#captures > 0
  }

  /**
   * The facts of work that was queued.
   * @param device The ordinal of its device
   * @param recorded What a recording in a file says of it; undefined for work of this process
   */
  of(work: QueuedWork, device: number, recorded?: RecordedFacts): WorkFact {
    switch (work.kind) {
      case 'kernel': {
        // What a kernel does that is given no memory cannot be known.
        const memory = memoryOf(work)
        const fact = this.#fact(memory, undefined, this.#share(work, device, recorded))
        return memory.length === 0 ? { ...fact, isPartlyKnown: true } : fact
      }
      case 'copy': {
        // Bytes of an array are staged in memory of the library's own.
        const memory = memoryOf(work)
        const engine = recorded === undefined ? this.#engineOf(work) : (recorded.engine ?? this.#memoryEngine)
        const isShared = work.name === 'upload' ? false : engine !== this.#memoryEngine || undefined
        return this.#fact(memory, engine, 0, isShared)
      }
      case 'copies':
        return this.#fact(memoryOf(work), this.#memoryEngine, 0)
      case 'fill':
        return this.#fact(memoryOf(work), this.#memoryEngine, 0)
      case 'writeValue':
        return this.#fact([touching(work.word.pointer as Pointer, work.word.bits / 8, 'out')], undefined, 0)
      case 'allocate':
        return this.#fact([touching(work.pointer, work.byteLength, 'out')], undefined, 0, false)
      case 'free':
        return this.#fact([], undefined, 0, false)
      case 'graph': {
        const memory = this.#execs.get(work.exec)
        return { ...this.#fact(memory, undefined, 0), instance: work.exec }
      }
      default:
        return UNKNOWN_FACT
    }
  }

  /** Notes work that was captured. */
  captures(work: QueuedWork): void {
    const memory = this.#touchedBy(work)
    if (memory === undefined) this.#captured = undefined
    else this.#captured?.push(...memory)
  }

  /** @param isEmpty Whether the graph has nothing yet that the capture is added to */
  captureBegins(isEmpty: boolean): void {
    this.#captures += 1
    this.#captured = this.#captures === 1 && isEmpty ? [] : undefined
  }

  captureIsUnknown(): void {
    this.#captured = undefined
  }

  captureEnds(graph?: GraphHandle): void {
    this.#captures = Math.max(0, this.#captures - 1)
    if (graph !== undefined) this.#is(this.#graphs, graph, this.#captured)
    this.#captured = undefined
  }

  /** Notes that the instance has the work of this graph from now on. */
  instantiated(exec: GraphExecHandle, graph: GraphHandle): void {
    this.#is(this.#execs, exec, this.#graphs.get(graph))
  }

  /** Notes that the graph, or the body of a conditional node, has work that nothing is known of. */
  changed(graph: GraphHandle): void {
    this.#graphs.delete(graph)
  }

  nodeUpdated(exec: GraphExecHandle, work: NodeWork): void {
    const known = this.#execs.get(exec)
    if (known !== undefined) this.#is(this.#execs, exec, [...known, ...memoryOf(work)])
  }

  destroyed(exec: GraphExecHandle): void {
    this.#execs.delete(exec)
  }

  /** Whether memory is the host's. */
  isOfHost(pointer: Pointer): boolean {
    let isOfHost = this.#places.get(pointer)
    if (isOfHost === undefined) {
      try {
        isOfHost = this.driver.memory.placeOf(pointer, 1, 0).isOfHost
      } catch {
        isOfHost = false
      }
      remember(this.#places, pointer, isOfHost)
    }
    return isOfHost
  }

  /** Forgets where memory is, as its addresses may be those of other memory now. */
  freed(): void {
    if (this.#places.size > 0) this.#places.clear()
  }

  /** The blocks of a kernel that a multiprocessor runs at one time; 0 if the driver does not say. */
  blocksAtOnce({ kernel, shape }: QueuedKernel): number {
    const { block, sharedMemory } = shape
    const key = `${kernel.handle} ${block.join()} ${sharedMemory}`
    let blocks = this.#blocksAtOnce.get(key)
    if (blocks === undefined) {
      try {
        blocks = this.driver.kernels.activeBlocks(kernel.handle, block[0] * block[1] * block[2], sharedMemory)
      } catch {
        blocks = 0
      }
      remember(this.#blocksAtOnce, key, blocks)
    }
    return blocks
  }

  #is<K>(known: Map<K, readonly TouchedMemory[]>, key: K, memory: readonly TouchedMemory[] | undefined): void {
    if (memory === undefined) known.delete(key)
    else remember(known, key, memory)
  }

  #touchedBy(work: QueuedWork): readonly TouchedMemory[] | undefined {
    if (work.kind === 'library') return work.calls.flatMap(({ memory }) => memory)
    if (work.kind === 'childGraph') return this.#graphs.get(work.graph)
    if (work.kind === 'hostFunction' && work.call.internal === true) return []
    const { memory, isPartlyKnown } = this.of(work, 0)
    return isPartlyKnown ? undefined : memory
  }

  #fact(
    memory: readonly TouchedMemory[] | undefined,
    engine: Operation['engine'],
    share: number,
    isShared?: boolean,
  ): WorkFact {
    const sharesWithHost = isShared ?? memory?.some(({ pointer }) => this.isOfHost(pointer)) ?? false
    return { memory, engine, share, sharesWithHost, isPartlyKnown: false, instance: undefined }
  }

  /** The engine of copies and fills within a device, for which they take turns on a GPU. */
  get #memoryEngine(): 'memory' | undefined {
    return this.driver.name === 'cuda' ? 'memory' : undefined
  }

  #engineOf({ destination, source }: { readonly destination: Pointer; readonly source: Pointer }): Operation['engine'] {
    const [to, from] = [this.isOfHost(destination), this.isOfHost(source)]
    if (to === from) return this.#memoryEngine
    return to ? 'toHost' : 'toDevice'
  }

  #share(work: QueuedKernel, device: number, recorded: RecordedFacts | undefined): number {
    if (this.driver.name === 'sim') return 1 / KERNELS_OF_SIMULATOR
    const size = recorded === undefined ? this.#device(device) : recorded.device
    if (size === undefined) return 0
    const blocksAtOnce = recorded === undefined ? this.blocksAtOnce(work) : recorded.blocksAtOnce
    return shareOf({ grid: work.shape.grid, block: work.shape.block, blocksAtOnce }, size)
  }

  #device(ordinal: number): DeviceSize {
    let size = this.#devices.get(ordinal)
    if (size === undefined) {
      const { devices } = this.driver
      const multiprocessors = devices.attribute(ordinal, MULTIPROCESSORS)
      size = { multiprocessors, threads: devices.attribute(ordinal, THREADS_OF_MULTIPROCESSOR) }
      this.#devices.set(ordinal, size)
    }
    return size
  }
}

function remember<K, V>(known: Map<K, V>, key: K, value: V): void {
  if (known.size >= MOST_REMEMBERED) known.clear()
  known.set(key, value)
}
