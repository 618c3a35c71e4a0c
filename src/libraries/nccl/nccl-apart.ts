/** NCCL runs the calls of one group side by side, in no order: seen on two H200s, where of two sums in place one was lost. */
import { invalidValue } from '../../base/errors.js'
import type { UsedMemory } from '../library-memory.js'

interface ByteRange {
  readonly begin: number
  readonly end: number
  readonly writes: boolean
  /** Which call of the group uses it. */
  readonly call: number
}

/** Do no two calls of a group use the same bytes, one of them to write? Throws ERR_INVALID_ARG_VALUE where they do. */
export function checkBuffersApart(
  calls: readonly { readonly name: string; readonly memory: readonly UsedMemory[] }[],
): void {
  if (calls.length < 2) return
  const ranges = calls.flatMap(({ memory }, call) =>
    memory.map(
      ({ pointer, byteLength, access }): ByteRange => ({
        ...{ begin: pointer, end: pointer + byteLength },
        ...{ writes: access !== 'in', call },
      }),
    ),
  )
  ranges.sort((a, b) => a.begin - b.begin)
  for (const [index, range] of ranges.entries()) {
    for (let next = index + 1; (ranges[next]?.begin ?? range.end) < range.end; next += 1) {
      const other = ranges[next]
      if (other === undefined || other.call === range.call || !(range.writes || other.writes)) continue
      const [first, second] = [Math.min(range.call, other.call), Math.max(range.call, other.call)]
      throw invalidValue(
        `${calls[first]?.name}() and ${calls[second]?.name}() of one group use the same ${Math.min(range.end, other.end) - other.begin} bytes, and one writes there; NCCL may run them side by side: put them into two groups`,
      )
    }
  }
}
