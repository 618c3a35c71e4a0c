/**
 * Blocks of a launch on other cores. Each worker is a simulated machine of its own: it runs the blocks that it takes on a
 * copy of the memory, and records each byte that they read and write. Only if none read or wrote what another one wrote,
 * what they wrote becomes the memory of the launch: then it is what one core makes, whatever the order. Otherwise, and
 * where a worker fails, it is dropped, and the blocks run here, one after the other.
 */
import { type DeviceBlock, type DeviceMemory, ENGINE_BEGIN } from './device-memory.js'
import type { InStep } from './in-step.js'
import type { LaunchConfiguration } from './layout.js'

/** The workers of a kernel; the host makes them. */
export interface BlockWorkers {
  readonly count: number
  /** Whether workers are likely to take less time than one core. */
  isWorth(work: RestOfLaunch): boolean
  /** Whether all workers have compiled the kernel. The call does not wait: it starts what is missing. */
  isReady(): boolean
  /** Memory that all workers reach; it is used again from one task to the next. */
  memory(byteLength: number): ArrayBufferLike
  /** Lets all workers run; one core would take `milliseconds`. */
  run(task: BlockTask, milliseconds: number): BlockRun
}

/** The rest of a launch that workers may take. */
export interface RestOfLaunch {
  /** The milliseconds that the code has run on this thread, in this launch and earlier ones. */
  readonly computed: number
  /** The milliseconds that the rest would take on this thread. */
  readonly rest: number
  /** The bytes that each worker would get a copy of. */
  readonly byteLength: number
}

/** A task that workers are at. */
export interface BlockRun {
  /** Waits at most so many milliseconds for all workers; 'pending' if that was not enough, undefined if a worker failed. */
  results(milliseconds: number): readonly BlockResult[] | 'pending' | undefined
}

/** The parts of a kernel from which a worker compiles it. */
export interface WorkerKernel {
  readonly text: string
  readonly kernel: string
  /** The addresses of the module's variables; keys are their names. */
  readonly addresses: ReadonlyMap<string, number>
  readonly inStep?: InStep
}

/** A range of blocks to run: all workers take some of them until none is left. */
export interface BlockTask {
  readonly configuration: LaunchConfiguration
  readonly gridId: bigint
  readonly instructionLimit: number
  /** The number of the next block to take (i32), followed by the contents of memory. */
  readonly shared: ArrayBufferLike
  readonly memory: readonly { readonly begin: number; readonly byteLength: number; readonly at: number }[]
  readonly end: number
  /** The number of blocks that a worker takes at a time. */
  readonly step: number
}

/** The work that one worker did. */
export interface BlockResult {
  readonly instructions: number
  readonly stops: number
  readonly accesses: readonly BlockAccesses[]
  /** The bytes that were written, one range after the other. */
  readonly written: Uint8Array
}

/** Ranges of one block of memory, as the beginning and the end of each, in their order. */
export interface BlockAccesses {
  readonly begin: number
  readonly reads: Float64Array
  readonly writes: Float64Array
}

const HEADER = 64
/** The number of portions that each worker takes, if all are equally fast. */
const STEPS = 16

/** The memory that a kernel may reach by its parameters and variables; undefined if another thread must not have it. */
export function memoryOf(
  memory: DeviceMemory,
  parameters: Uint8Array,
  variables: Iterable<number>,
): readonly DeviceBlock[] | undefined {
  const view = new DataView(parameters.buffer, parameters.byteOffset, parameters.byteLength)
  const pointers = [...variables]
  for (let at = 0; at + 8 <= parameters.byteLength; at += 8) pointers.push(Number(view.getBigUint64(at, true)))
  const blocks = new Set<DeviceBlock>()
  for (const pointer of pointers) {
    const block = memory.find(pointer)
    if (block === undefined) continue
    if (block.external !== undefined || block.begin >= ENGINE_BEGIN) return undefined
    blocks.add(block)
  }
  return [...blocks]
}

/** Copies memory to where workers reach it, and makes the task of blocks from `begin` on. */
export function taskFor(
  memory: DeviceMemory,
  blocks: readonly DeviceBlock[],
  workers: BlockWorkers,
  range: { readonly begin: number; readonly end: number },
  launch: Pick<BlockTask, 'configuration' | 'gridId' | 'instructionLimit'>,
): BlockTask | undefined {
  let end = HEADER
  const places = blocks.map(({ begin, byteLength }) => {
    const at = end
    end += Math.ceil(byteLength / HEADER) * HEADER
    return { begin, byteLength, at }
  })
  const shared = workers.memory(end)
  for (const { begin, byteLength, at } of places) {
    const bytes = memory.use(begin, byteLength)
    if (bytes === undefined) return undefined
    new Uint8Array(shared, at, byteLength).set(bytes)
  }
  new Int32Array(shared)[0] = range.begin
  const step = Math.ceil((range.end - range.begin) / (workers.count * STEPS))
  return { ...launch, shared, memory: places, end: range.end, step }
}

/** Copies what workers wrote to the memory of the launch. If one of them read or wrote what another one wrote, copies nothing and returns false. */
export function mergeInto(memory: DeviceMemory, results: readonly BlockResult[]): boolean {
  for (const [index, one] of results.entries()) {
    for (const other of results.slice(index + 1)) if (conflict(one.accesses, other.accesses)) return false
  }
  for (const { accesses, written } of results) {
    let at = 0
    for (const { begin, writes } of accesses) {
      const block = memory.find(begin)
      const bytes = block && memory.use(begin, block.byteLength)
      for (let index = 0; index < writes.length; index += 2) {
        const [from = 0, to = 0] = [writes[index], writes[index + 1]]
        bytes?.set(written.subarray(at, at + to - from), from - begin)
        at += to - from
      }
    }
  }
  return true
}

function conflict(some: readonly BlockAccesses[], others: readonly BlockAccesses[]): boolean {
  return some.some(({ begin, reads, writes }) => {
    const other = others.find((each) => each.begin === begin)
    if (other === undefined) return false
    return overlap(writes, other.writes) || overlap(writes, other.reads) || overlap(reads, other.writes)
  })
}

function overlap(some: Float64Array, others: Float64Array): boolean {
  for (let one = 0, other = 0; one < some.length && other < others.length; ) {
    const [from = 0, to = 0] = [some[one], some[one + 1]]
    const [otherFrom = 0, otherTo = 0] = [others[other], others[other + 1]]
    if (to <= otherFrom) one += 2
    else if (otherTo <= from) other += 2
    else return true
  }
  return false
}
