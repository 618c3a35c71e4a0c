/** Values in memory that streams wait for and write: CUDA's stream memory operations. */
/** CUstreamWaitValue_flags. */
export const Comparison = { GEQ: 0, EQ: 1, AND: 2, NOR: 3 } as const
export type Comparison = (typeof Comparison)[keyof typeof Comparison]

/** A word of 4 or 8 bytes: `value` is what is written there, or what it is compared with, and not negative. */
export interface MemoryValue {
  /** A CUdeviceptr. */
  readonly pointer: number
  readonly bits: 32 | 64
  readonly value: bigint
}

/** Does a word that holds `held` satisfy the wait? The first comparison is of signed differences, so that counters may wrap. */
export function isMet(held: bigint, compare: Comparison, { bits, value }: MemoryValue): boolean {
  if (compare === Comparison.GEQ) return BigInt.asIntN(bits, held - value) >= 0n
  if (compare === Comparison.EQ) return held === value
  if (compare === Comparison.AND) return (held & value) !== 0n
  return BigInt.asUintN(bits, ~(held | value)) !== 0n
}
