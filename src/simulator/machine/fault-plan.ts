/** The calls and operations of a simulation that are to fail. */
import type { SimOperation } from './machine-state.js'
import { Random } from './random.js'
import { SimOperationKind } from './work.js'

/** A call of the driver that is to throw at once, or an operation that is to fault the devices when it would end. */
export interface PlannedFault {
  readonly call: string | undefined
  readonly operation: 'kernel' | 'copy' | 'fill' | 'any' | undefined
  /** The number of calls or operations that succeed before. */
  readonly after: number
  /** The number of calls or operations that fail then. */
  readonly times: number
  /** The probability with which each of them fails. */
  readonly probability: number
  /** The CUresult with which they fail. */
  readonly result: number
}

/** The calls that can be made to fail: those that a program's own calls lead to. */
export const FAILING_CALLS = [
  'cuCtxSynchronize',
  'cuEventCreate',
  'cuEventQuery',
  'cuEventRecord',
  'cuEventSynchronize',
  'cuGraphLaunch',
  'cuGreenCtxCreate',
  'cuGreenCtxStreamCreate',
  'cuLaunchHostFunc',
  'cuLaunchKernelEx',
  'cuMemAllocAsync',
  'cuMemAllocFromPoolAsync',
  'cuMemFreeAsync',
  'cuMemHostAlloc',
  'cuMemcpyAsync',
  'cuMemsetD16Async',
  'cuMemsetD32Async',
  'cuMemsetD8Async',
  'cuStreamAddCallback',
  'cuStreamBeginCapture',
  'cuStreamCreateWithPriority',
  'cuStreamQuery',
  'cuStreamSynchronize',
  'cuStreamWaitEvent',
] as const

/** CUDA's name of a call that a simulation can let fail. */
export type FailingCall = (typeof FAILING_CALLS)[number]

interface PendingFault {
  readonly fault: PlannedFault
  /** The number of calls or operations that still succeed before the first that fails. */
  before: number
  /** The number of calls or operations that are still to fail. */
  left: number
}

export class FaultPlan {
  /** Whether nothing is to fail. */
  empty = true
  readonly #pending = new Set<PendingFault>()
  readonly #random: Random

  constructor(seed: number) {
    this.#random = new Random(seed)
  }

  /** Adds a fault, which counts from now on. Returns a function that takes it back. */
  add(fault: PlannedFault): () => void {
    const pending: PendingFault = { fault, before: fault.after, left: fault.times }
    this.#pending.add(pending)
    this.empty = false
    return () => this.#drop(pending)
  }

  /** The CUresult with which this call is to fail, or 0. */
  ofCall(call: string): number {
    return this.#strike(({ call: wanted }) => wanted === call)
  }

  /** The CUresult of the fault that this operation is to end in, or 0. */
  ofOperation({ kind, work }: SimOperation): number {
    if (kind !== SimOperationKind.KERNEL && kind !== SimOperationKind.COPY) return 0
    const name = kind === SimOperationKind.KERNEL ? 'kernel' : work?.what
    return this.#strike(({ operation }) => operation === name || operation === 'any')
  }

  /** Counts one call or operation in each of the faults that concern it; returns the CUresult of the first fault that strikes, or 0. */
  #strike(concerns: (fault: PlannedFault) => boolean): number {
    let result = 0
    for (const pending of this.#pending) {
      const { fault } = pending
      if (!concerns(fault)) continue
      if (pending.before > 0) pending.before -= 1
      else if (fault.probability === 1 || this.#random.next() < fault.probability) {
        pending.left -= 1
        if (result === 0) result = fault.result
        if (pending.left === 0) this.#drop(pending)
      }
    }
    return result
  }

  #drop(pending: PendingFault): void {
    this.#pending.delete(pending)
    this.empty = this.#pending.size === 0
  }
}
