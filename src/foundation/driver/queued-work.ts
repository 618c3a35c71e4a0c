/** The work that streams are given, and the memory that it touches. */

import type { Comparison } from './driver-constants.js'
import type { InternalEvent } from './event-driver.js'
import type { ContextHandle, GraphExecHandle, GraphHandle, Pointer, PoolHandle, StreamHandle } from './handle-types.js'
import {
  isMemoryArgument,
  type LaunchArgument,
  type LaunchedKernel,
  type LaunchObserver,
  type LaunchShape,
} from './kernel-driver.js'
import type { LibraryCall } from './library-driver.js'
import type { MemoryValue } from './touched-memory.js'
import { type CopiedBytes, type MemoryRows, type TouchedMemory, touching, touchingRows } from './touched-memory.js'

/** A host function as the driver runs it: `status` is 0, or the CUresult of the fault that came before it. */
export interface HostFunction {
  readonly run: (status: number) => void
  /** True: `cuStreamAddCallback`, also run after a fault. False: `cuLaunchHostFunc`, dropped then, as CUDA does. */
  readonly runsAfterFault: boolean
  /** Internal, as those of a download: it does not count as something that the program queued. */
  readonly internal?: boolean
}

type ReadsUnwritten = (isUnwritten: (address: number) => boolean) => void

/** A copy, in a stream or in a node of a graph. */
export interface CopyWork extends CopiedBytes {
  readonly kind: 'copy'
}

/** Bytes that a single element of a fill has. */
export type FillWidth = 1 | 2 | 4

/** A fill, in a stream or in a node of a graph. */
export interface FillWork {
  readonly kind: 'fill'
  readonly pointer: Pointer
  readonly value: number
  readonly width: FillWidth
  /** The elements of all rows, if it fills rows. */
  readonly count: number
  /** The rows, which make one matrix; undefined if no bytes are left out. */
  readonly rows: MemoryRows | undefined
}

/** A launch of a kernel, in a stream or in a node of a graph. */
export interface KernelWork {
  readonly kind: 'kernel'
  readonly kernel: LaunchedKernel
  readonly shape: LaunchShape
  readonly args: readonly LaunchArgument[]
  readonly observer?: LaunchObserver
  /** See `QueuedLibraryCalls`. */
  readonly comparesAll?: true
}

/** Work that a node of a graph can be given in the place of other work of its kind. */
export type NodeWork = CopyWork | FillWork | KernelWork

interface InStream {
  readonly stream: StreamHandle
}

interface InContext extends InStream {
  readonly context: ContextHandle
}

/**
 * `cuMemcpyAsync` between any two places that the stream's device reaches, `cuMemcpyPeerAsync` where the route says that
 * they are memory of two devices that it does not reach, `cuMemcpyBatchAsync` within the host, `cuMemcpy3DAsync` of rows
 * (within the host a host function copies rows). Never blocks.
 */
export interface QueuedCopy extends InStream, CopyWork {
  /** What the program has called for. */
  readonly name: 'copy' | 'upload' | 'download'
  /** Called on the simulator when the copy reads, with a function which says whether nothing has written the byte at an address. */
  readonly reads?: ReadsUnwritten
}

/** `cuMemcpyBatchAsync`, or one by one: copies that touch nothing of each other, in any order. */
export interface QueuedCopies extends InStream {
  readonly kind: 'copies'
  readonly copies: readonly CopiedBytes[]
}

/** `cuMemsetD8Async`, `D16` or `D32`; of rows `cuMemsetD2D8Async`, `D2D16` or `D2D32`. */
export interface QueuedFill extends InStream, FillWork {}

/** `cuLaunchKernelEx` */
export interface QueuedKernel extends InStream, KernelWork {}

/**
 * `cuMemAllocAsync`, or `cuMemAllocFromPoolAsync` where a pool is given: the memory is there once the stream's work gets
 * here. Where memory runs out, what the pools of the device keep unused is given back first.
 */
export interface QueuedAllocation extends InContext {
  readonly kind: 'allocate'
  readonly byteLength: number
  readonly pool: PoolHandle | undefined
  /** Whether all bytes are 0 at first. Otherwise CUDA promises nothing. */
  readonly isZeroed: boolean
  /** The address of the memory; set by the driver. CUDA_MEM_ALLOC_NODE_PARAMS has such a field, too. */
  pointer: Pointer
}

/**
 * `cuMemFreeAsync`: the memory is gone once the stream's work gets here, and the latest records of the events are done. The
 * stream does not wait for them, and the driver takes them over.
 */
export interface QueuedFree extends InStream {
  readonly kind: 'free'
  readonly pointer: Pointer
  readonly after: readonly InternalEvent[]
}

/**
 * `cuStreamWaitValue32` or `64`: later work of the stream waits until the word in memory meets the comparison. Not memory
 * of a pool.
 */
export interface QueuedValueWait extends InContext {
  readonly kind: 'waitValue'
  readonly word: MemoryValue
  readonly compare: Comparison
}

/** `cuStreamWriteValue32` or `64`: written when all earlier work of the stream is done, and all that it wrote is there. */
export interface QueuedValueWrite extends InStream {
  readonly kind: 'writeValue'
  readonly word: MemoryValue
}

/** `cuLaunchHostFunc` or `cuStreamAddCallback` */
export interface QueuedHostFunction extends InContext {
  readonly kind: 'hostFunction'
  readonly call: HostFunction
}

/**
 * Blocks the stream at this point until `release` is called. The stream does not capture. A wait of this thread for work
 * behind it is ERR_DEADLOCK meanwhile. It alone does not keep the process alive.
 */
export interface QueuedPromiseWait extends InContext {
  readonly kind: 'promise'
  /** The function of the library that the program has called, if that is known: warnings name the place of the call. */
  readonly called: ((...args: never[]) => unknown) | undefined
  /** Ends the block; set by the driver. */
  release: () => void
}

/** `cuGraphLaunch` */
export interface QueuedGraph extends InStream {
  readonly kind: 'graph'
  readonly exec: GraphExecHandle
}

/** `cuGraphUpload` */
export interface QueuedGraphUpload extends InStream {
  readonly kind: 'graphUpload'
  readonly exec: GraphExecHandle
}

/**
 * `cuGraphAddChildGraphNode`, `cuStreamUpdateCaptureDependencies`: puts a copy of the graph into the capture that the
 * stream is in, as one node, behind what the stream has there. The stream captures.
 */
export interface QueuedChildGraph extends InStream {
  readonly kind: 'childGraph'
  readonly graph: GraphHandle
}

/**
 * Makes the calls, each in its context, in hardware queues that have room for the entries of each. Throws
 * ERR_UNSUPPORTED where a call has no host implementation and the driver runs no GPU code.
 */
export interface QueuedLibraryCalls {
  readonly kind: 'library'
  readonly calls: readonly LibraryCall[]
  /**
   * Makes the calls inside a pair of calls that marks a group, for libraries that must know which calls belong together.
   */
  readonly together?: ((calls: () => void) => void) | undefined
  /**
   * Whether the memory that a host implementation must not write is compared in full, and not just at the ends of long ranges.
   */
  readonly comparesAll?: true
}

/** The work that `Driver.queue()` queues. */
export type QueuedWork =
  | QueuedAllocation
  | QueuedChildGraph
  | QueuedCopies
  | QueuedCopy
  | QueuedFill
  | QueuedFree
  | QueuedGraph
  | QueuedGraphUpload
  | QueuedHostFunction
  | QueuedKernel
  | QueuedLibraryCalls
  | QueuedPromiseWait
  | QueuedValueWait
  | QueuedValueWrite

/** The memory that copies, fills and kernels touch. */
export function memoryOf(work: NodeWork | QueuedCopies): readonly TouchedMemory[] {
  switch (work.kind) {
    case 'copy':
      return endsOf(work)
    case 'copies':
      return work.copies.flatMap(endsOf)
    case 'fill':
      return [
        work.rows === undefined
          ? touching(work.pointer, work.width * work.count, 'out')
          : touchingRows(work.pointer, work.rows, 'out'),
      ]
    case 'kernel':
      return work.args.flatMap((given, argument) => {
        if (!isMemoryArgument(given)) return []
        const { pointer, byteLength, object } = given
        const access = object?.access ?? work.kernel.uses[argument]?.access ?? 'inout'
        return { pointer, byteLength, access, argument, rows: undefined }
      })
  }
}

function endsOf({ destination, source, byteLength, rows }: CopiedBytes): readonly [TouchedMemory, TouchedMemory] {
  if (rows === undefined) return [touching(destination, byteLength, 'out'), touching(source, byteLength, 'in')]
  return [touchingRows(destination, rows.to, 'out'), touchingRows(source, rows.from, 'in')]
}

export interface WorkDriver {
  /**
   * Queues work on its stream; captures it where the stream captures. Never waits: `reserve()` comes before it.
   * Records of events and waits for them are methods of their own, since programs make millions of them.
   */
  queue(work: QueuedWork): void
  /**
   * Waits until the stream's hardware queue takes so many more entries, 256 at most. Host functions that become ready run
   * meanwhile.
   */
  reserve(stream: StreamHandle, entries: number): void
  /**
   * True if the stream's hardware queue takes so many more entries now. Waits for nothing, and invalidates no
   * capture.
   */
  hasCapacity(stream: StreamHandle, entries: number): boolean
  /** Runs host functions as they become ready, and blocks until none is pending on any stream of any device. */
  drainHostFunctions(): void
}
