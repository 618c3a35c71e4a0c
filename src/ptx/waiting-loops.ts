/** Loops that do nothing but wait for an mbarrier: a launch whose threads are all in such loops, or wait for each other, never ends. */
import { type ControlFlow, successorsOf } from './control-flow.js'
import type { Stop } from './program.js'

/** Instructions that let a thread wait, or that only compute from whether it still has to. */
const WAITS = /^(?:mbarrier\.(?:test|try)_wait|nanosleep|mov|selp|setp|not|cvt)\b/
const WAITS_FOR_MBARRIER = /^mbarrier\.(?:test|try)_wait\b/

/** Whether a thread that stops there, at the start of a loop, leaves the loop by nothing but the end of a phase of an mbarrier. */
export function isWaitingLoop({ kind, fn, block: header }: Stop): boolean {
  if (kind !== 'turn') return false
  const instructions = loopAt(fn.flow, header).flatMap((block) => fn.flow.blocks[block]?.instructions ?? [])
  const opcodes = instructions.map(({ instruction }) => instruction.opcode)
  return opcodes.some((each) => WAITS_FOR_MBARRIER.test(each)) && opcodes.every((each) => WAITS.test(each))
}

/** The blocks of code that lead to each other and to the header. */
function loopAt({ blocks }: ControlFlow, header: number): readonly number[] {
  const predecessors = blocks.map((): number[] => [])
  for (const [from, block] of blocks.entries()) for (const to of successorsOf(block)) predecessors[to]?.push(from)
  const reach = (next: (block: number) => readonly number[]): ReadonlySet<number> => {
    const found = new Set([header])
    for (const block of found) for (const each of next(block)) found.add(each)
    return found
  }
  const behind = reach((at) => {
    const block = blocks[at]
    return block === undefined ? [] : successorsOf(block)
  })
  const before = reach((at) => predecessors[at] ?? [])
  return [...behind].filter((block) => before.has(block))
}
