/** What a row of a recording can be. A row holds the number; programs and files get the name. */
export const RowKind = {
  /** Nothing: the call was refused, or captured into a graph. */
  NONE: 0,
  KERNEL: 1,
  COPY: 2,
  FILL: 3,
  ALLOCATE: 4,
  FREE: 5,
  RECORD: 6,
  WAIT: 7,
  HOST_FUNCTION: 8,
  GRAPH: 9,
  LATCH: 10,
  FAULT: 11,
  /** A call that blocks until work is done. It is on the host only. */
  SYNCHRONIZE: 12,
  /** A promise of work being done; likewise. */
  AWAIT: 13,
} as const
export type RowKind = (typeof RowKind)[keyof typeof RowKind]

/** In the order of `RowKind`. */
export const KIND_NAMES = [
  undefined,
  'kernel',
  'copy',
  'fill',
  'allocate',
  'free',
  'record',
  'wait',
  'hostFunction',
  'graph',
  'latch',
  'fault',
  'synchronize',
  'await',
] as const

/**
 * What an operation is. 'latch' and 'fault' are the simulator's own, from `cuda-streams/sim`: a stream that a test holds,
 * and a GPU that breaks. 'wait' is `cuStreamWaitEvent`; a host that waits is a `TimelineCall` instead.
 */
export type OperationKind = Exclude<(typeof KIND_NAMES)[number], 'synchronize' | 'await' | undefined>

/** Does it stand at a point of its stream, and take no time of a device? */
export const isInstant = (kind: number): boolean =>
  kind === RowKind.RECORD || kind === RowKind.WAIT || kind === RowKind.ALLOCATE || kind === RowKind.FREE

/** Is it only on the host? */
export const isHostOnly = (kind: number): boolean => kind === RowKind.SYNCHRONIZE || kind === RowKind.AWAIT

/** The cause of a row on the host that waits for a whole device; rows themselves are at least -1. */
export const wholeDevice = (device: number): number => -2 - device

/** The device that such a cause stands for; undefined for any other. */
export const deviceInCause = (cause: number): number | undefined => (cause < -1 ? -2 - cause : undefined)

/** The name of rows for host functions that the library needs itself. */
export const STAGING = 'staging'
