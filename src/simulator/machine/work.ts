/** The kinds of operations of the simulated machine, and their effects on memory. */
import type { Computation } from './slice.js'

export const SimOperationKind = {
  /** An operation that takes no time: a record, a wait, a marker. It ends as soon as it is ready. */
  INSTANT: 0,
  /** A kernel, which takes its time on one of the device's kernel slots. */
  KERNEL: 1,
  /** A host function, which blocks its stream until JavaScript has run it. */
  HOST: 2,
  /** A latch, which blocks its stream until it is opened. */
  LATCH: 3,
  /** A fault, which breaks every device a while after it starts. */
  FAULT: 4,
  /** A copy or fill, which takes its time, on a copy engine if it needs one. */
  COPY: 5,
  /** A latch that a promise opens. */
  PROMISE: 6,
  /** A conditional node, which decides, a moment after it is ready, which operations come next, and is over when it has none left. */
  CONDITIONAL: 7,
} as const
/** Whether an operation of this kind blocks its stream until it is opened. */
export const isLatch = (kind: number): boolean => kind === SimOperationKind.LATCH || kind === SimOperationKind.PROMISE
export type SimOperationKind = (typeof SimOperationKind)[keyof typeof SimOperationKind]

/** The bytes that an operation, or JavaScript, reads or writes. */
export interface Touch {
  readonly pointer: number
  readonly byteLength: number
  readonly writes: boolean
}

/** The first two pieces that have bytes in common which one of them writes. */
export function touchesOverlap(some: readonly Touch[], others: readonly Touch[]): readonly [Touch, Touch] | undefined {
  for (const a of some) {
    for (const b of others) {
      if (!a.writes && !b.writes) continue
      if (a.pointer < b.pointer + b.byteLength && b.pointer < a.pointer + a.byteLength) return [a, b]
    }
  }
  return undefined
}

/** A fault of a kernel's code on a GPU: thrown by the effect of the launch. */
export class LaunchFault extends Error {
  /**
   * @param result The CUresult of the fault
   * @param culprit What has faulted, as the beginning of a sentence, if that is known
   */
  constructor(
    readonly result: number,
    message: string,
    readonly culprit?: string,
  ) {
    super(message)
  }
}

/** The effect of an operation on memory, beside taking time. */
export interface Work {
  /** The name of the work in messages: 'copy', 'kernel scale'. */
  readonly what: string
  /** The number of the copy engine that the work occupies (see `SimDevice`). */
  readonly engine: number | undefined
  /** The number of kernel slots that the work takes. Default: 1. */
  readonly slots?: number
  /** The memory that the work reads and writes. */
  readonly touches: readonly Touch[]
  /** The name of the work for observers: 'copy', 'scale'. */
  readonly name: string
  /** The number of bytes that the work moves, if it is for moving bytes. */
  readonly byteLength: number | undefined
  /** The property of the work that an update of a graph must leave unchanged. Default: the call that queued it. */
  readonly shape: string | undefined
  /**
   * The virtual nanoseconds that the work takes, asked for when it begins: by then it is known what earlier launches of a kernel have taken. Default:
   * those with which it was queued.
   */
  readonly duration?: (() => number) | undefined
  /** Whether the value is there that the work waits for; undefined for work that waits for none. */
  readonly isReady?: () => boolean
  /**
   * Called when the operation ends, or later, unless it is dropped. A LaunchFault loses the devices; errors of functions of the program become
   * uncaught exceptions.
   */
  effect(): void
  /** Begins the effect, if it may take so long that the event loop should turn meanwhile; `effect` is not called then. */
  compute?(): Computation | undefined
}

/** The wait of a stream for work of another thread. */
export class OtherThreadsWork implements Work {
  readonly what = 'work of another thread'
  readonly name = 'wait for another thread'
  readonly engine = undefined
  readonly byteLength = undefined
  readonly shape = undefined
  readonly touches: readonly Touch[] = []

  constructor(readonly isReady: () => boolean) {}

  effect(): void {}
}
