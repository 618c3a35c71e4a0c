/** Operations and streams as people know them. */
import type { SimOperation, SimStream } from '../driver/sim/machine/machine-state.js'
import { SimOperationKind } from '../driver/sim/machine/work.js'

/** Streams are numbered in the order in which they were made, from 1; those that the library makes for itself count too. */
export function streamName(stream: SimStream, devices: number): string {
  const { device } = stream
  const of = device.ordinal === 0 ? '' : ` of device ${device.ordinal}`
  if (stream === device.nullStream) return `the null stream${of}`
  if (stream === device.perThread) return `the per-thread stream${of}`
  return `stream ${Number(stream.id) - 2 * devices}${of}`
}

const NAMES: Readonly<Record<number, string>> = {
  [SimOperationKind.INSTANT]: 'mark',
  [SimOperationKind.KERNEL]: 'kernel',
  [SimOperationKind.HOST]: 'host function',
  [SimOperationKind.LATCH]: 'latch',
  [SimOperationKind.FAULT]: 'fault',
  [SimOperationKind.COPY]: 'copy',
}

export function whatOf({ kind, work }: SimOperation): string {
  return work?.what ?? NAMES[kind] ?? 'operation'
}
