/** The parts of a program whose instructions a thread runs one after the other: blocks of code, divided by calls. */
import type { Decoded } from './decoding.js'
import { isStep } from './in-step.js'
import type { PreparedFunction } from './program.js'

/** A block of code, or its part up to a call or behind one: the lanes that enter it together run it together. */
export interface Segment {
  /** The place in its function: lanes at a lower one go first. */
  readonly position: number
  readonly instructions: readonly Decoded[]
  /** The branch at its end, if that has two targets or more. */
  readonly branch: Decoded | undefined
  readonly begins: 'function' | 'elsewhere'
  /** The place at which a thread goes on that stops at the end; undefined if it does not, or if that is not known. */
  readonly next: number | undefined
  readonly ends: 'thread' | 'function' | 'in a call' | 'elsewhere'
}

/** @param order The positions of the function's blocks in the order of the program */
export function segmentOf(fn: PreparedFunction, id: number, part: number, order: Int32Array): Segment {
  const block = fn.flow.blocks[id]
  if (block === undefined) throw new Error(`There is no block ${id}`)
  const calls = block.instructions.flatMap((each, index) => (isCall(each) ? [index + 1] : []))
  const [from, to] = [part === 0 ? 0 : calls[part - 1], calls[part]]
  const { end, terminator } = block
  const isLast = to === undefined
  const inner = block.instructions.slice(from, to)
  const branches = terminator.kind === 'branch' || terminator.kind === 'switch'
  // An instruction with a guard that ends a block has a block of its own, behind a branch, where it was counted.
  const isCounted = end !== undefined && !isStep(end) && (branches || end.instruction.guard === undefined)
  const ends: Partial<Record<typeof terminator.kind, Segment['ends']>> = {
    return: fn.fn.entry ? 'thread' : 'function',
    exit: 'thread',
    trap: 'thread',
    call: 'in a call',
  }
  return {
    position: (order[id] ?? 0) + part / 2 ** 20,
    instructions: isLast && isCounted ? [...inner, end] : inner,
    branch: isLast && branches ? end : undefined,
    next: isLast && terminator.kind === 'meeting' ? order[terminator.next] : undefined,
    begins: id === 0 && part === 0 && !fn.fn.entry ? 'function' : 'elsewhere',
    ends: isLast ? (ends[terminator.kind] ?? 'elsewhere') : 'in a call',
  }
}

/** Whether a function is called, whose segments come before the one behind the call. */
export const isCall = ({ form: { meaning } }: Decoded): boolean => meaning.kind === 'code' && meaning.code === 'call'
