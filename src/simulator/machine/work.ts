/** The kinds of operations of the simulated machine, and their effects on memory. */

export const SimOperationKind = {
  /** Takes no time: a record, a wait, a marker. Ends as soon as it is ready. */
  INSTANT: 0,
  /** Takes its time on one of the device's kernel slots. */
  KERNEL: 1,
  /** Stands until JavaScript has run its host function. */
  HOST: 2,
  /** Stands until it is opened. */
  LATCH: 3,
  /** Breaks every device a while after it starts. */
  FAULT: 4,
  /** Takes its time, on a copy engine if it needs one. */
  COPY: 5,
  /** A latch that a promise opens. */
  PROMISE: 6,
  /** Decides, a moment after it is ready, which operations come next, and is over when it has none left. */
  CONDITIONAL: 7,
} as const
/** Does it stand until it is opened? */
export const isLatch = (kind: number): boolean => kind === SimOperationKind.LATCH || kind === SimOperationKind.PROMISE
export type SimOperationKind = (typeof SimOperationKind)[keyof typeof SimOperationKind]

/** Bytes that an operation, or JavaScript, reads or writes. */
export interface Touch {
  readonly pointer: number
  readonly byteLength: number
  readonly writes: boolean
}

/** The first two that have bytes in common, one of them writing. */
export function touchesOverlap(some: readonly Touch[], others: readonly Touch[]): readonly [Touch, Touch] | undefined {
  for (const a of some) {
    for (const b of others) {
      if (!a.writes && !b.writes) continue
      if (a.pointer < b.pointer + b.byteLength && b.pointer < a.pointer + a.byteLength) return [a, b]
    }
  }
  return undefined
}

/** What the code of a kernel did that a GPU answers with a fault: thrown by the effect of its launch. */
export class LaunchFault extends Error {
  /** @param result The CUresult. */
  constructor(
    readonly result: number,
    message: string,
  ) {
    super(message)
  }
}

/** The effect of an operation on memory, beside taking time. */
export interface Work {
  /** As people call it: 'copy', 'kernel scale'. */
  readonly what: string
  /** The number of the copy engine that it occupies, see `SimDevice`. */
  readonly engine: number | undefined
  /** Kernel slots that it takes, if not one. */
  readonly slots?: number
  /** What it reads and writes. */
  readonly touches: readonly Touch[]
  /** What observers call it: 'copy', 'scale'. */
  readonly name: string
  /** How many bytes it moves, where it is for moving bytes. */
  readonly byteLength: number | undefined
  /** What an update of a graph must leave as it is; if not given, the call that queued it. */
  readonly shape: string | undefined
  /** Of one that stands until this is true. */
  readonly isReady?: () => boolean
  /**
   * Called when the operation ends, or later, unless it is dropped. A LaunchFault loses the devices; errors of functions of the
   * program become uncaught exceptions.
   */
  effect(): void
}

/** A stream stands here until work of another thread is done. */
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
