/**
 * The operands of video instructions, which may be parts of registers (`%r1.b3`, `%r1.h10`) or have a minus. What the table of forms does not have is
 * done by instructions of their own: parts are taken out before, and put into the destination behind.
 */
import type { Operand, Register } from './syntax.js'

export interface VideoOperand {
  readonly operand: Operand
  /** The part of the register, such as 'b3' or 'h10'; '' for the whole. */
  readonly selector: string
  readonly negated: boolean
}

/** An instruction that another one is made of. */
export interface Piece {
  readonly opcode: string
  readonly operands: readonly Operand[]
  /** Whether the guard of the instruction holds for this one, too. */
  readonly guarded: boolean
}

/** Why the operands cannot be so, in the words of an error. */
export class VideoMistake {
  constructor(readonly why: string) {}
}

const SCALAR = /^v(?:add|sub|absdiff|min|max|shl|shr|mad|set)\./
const PACKED = /^v(?:add|sub|absdiff|min|max|avrg|set)([24])\./

export const isVideo = (opcode: string): boolean => SCALAR.test(opcode) || PACKED.test(opcode)

/** The instructions of one whose operands have parts or a minus; `temporary` makes a register of .b32. */
export function videoPieces(
  opcode: string,
  given: readonly VideoOperand[],
  temporary: () => Register,
): readonly Piece[] | VideoMistake {
  const minus = given.flatMap(({ negated }, index) => (negated ? [index] : []))
  if (minus.length > 0 && !opcode.startsWith('vmad.')) return new VideoMistake(`'${opcode}' takes no minus`)
  return SCALAR.test(opcode) ? scalarPieces(opcode, given, minus, temporary) : packedPieces(opcode, given, temporary)
}

const integer = (value: number): Operand => ({ kind: 'integer', value: BigInt(value) })

function scalarPieces(
  opcode: string,
  given: readonly VideoOperand[],
  minus: readonly number[],
  temporary: () => Register,
): readonly Piece[] | VideoMistake {
  // The types are those of the operands; vset has none for its result.
  const types = opcode.split('.').filter((word) => /^[us]32$/.test(word))
  const pieces: Piece[] = []
  let whole = opcode
  const operands: Operand[] = []
  for (const [index, { operand, selector }] of given.entries()) {
    if (selector === '') {
      operands.push(operand)
      continue
    }
    if (!/^(?:b[0-3]|h[01])$/.test(selector) || index > 2) return new VideoMistake(`'.${selector}' is no part here`)
    if (index === 0) {
      whole = `${whole}.->${selector}`
      operands.push(operand)
      continue
    }
    const bits = selector.startsWith('b') ? 8 : 16
    const type = types[opcode.startsWith('vset.') ? index - 1 : index] ?? 'u32'
    const part: Operand = { kind: 'register', register: temporary() }
    const place = [integer(bits * Number(selector[1])), integer(bits)]
    pieces.push({ opcode: `bfe.${type}`, operands: [part, operand, ...place], guarded: false })
    operands.push(part)
  }
  const ofProduct = minus.filter((index) => index === 1 || index === 2)
  if (minus.length > 0 && (minus.includes(0) || (minus.includes(3) && ofProduct.length === 1)))
    return new VideoMistake('A minus is for one factor, for both, or for what is added')
  if (ofProduct.length === 1) whole = `${whole}.-ab`
  if (minus.includes(3)) whole = `${whole}.-c`
  return [...pieces, { opcode: whole, operands, guarded: true }]
}

function packedPieces(
  opcode: string,
  given: readonly VideoOperand[],
  temporary: () => Register,
): readonly Piece[] | VideoMistake {
  const isPairs = PACKED.exec(opcode)?.[1] === '2'
  const read = isPairs ? /^h[0-3]{2}$/ : /^b[0-7]{4}$/
  const written = isPairs ? /^h(?:0|1|10)$/ : /^b(?=\d)3?2?1?0?$/
  const [d, a, b, c] = given
  if (d === undefined || a === undefined || b === undefined || c === undefined) {
    return new VideoMistake(`'${opcode}' takes four operands`)
  }
  const pieces: Piece[] = []
  const operands = [d, a, b, c].map(({ operand }) => operand)
  for (const [index, { selector }] of [a, b].entries()) {
    if (selector === '') continue
    if (!read.test(selector)) return new VideoMistake(`'.${selector}' is no part here`)
    const chosen: Operand = { kind: 'register', register: temporary() }
    const table = [...selector.slice(1)].flatMap((digit) =>
      isPairs ? [2 * Number(digit) + 1, 2 * Number(digit)] : [Number(digit)],
    )
    const control = integer(Number(`0x${table.join('')}`))
    pieces.push({ opcode: 'prmt.b32', operands: [chosen, a.operand, b.operand, control], guarded: false })
    operands[1 + index] = chosen
  }
  if (c.selector !== '') return new VideoMistake(`'.${c.selector}' is no part of what is added`)
  if (d.selector === '') return [...pieces, { opcode, operands, guarded: true }]
  if (!written.test(d.selector) || opcode.endsWith('.add')) return new VideoMistake(`'.${d.selector}' is no part here`)
  // The bytes of the result come from the instruction, and those that it does not write from the third operand.
  const result: Operand = { kind: 'register', register: temporary() }
  const parts = new Set([...d.selector.slice(1)].map(Number))
  const bytes = [3, 2, 1, 0].map((byte) => (parts.has(isPairs ? byte >> 1 : byte) ? byte : byte + 4))
  const merged = [d.operand, result, c.operand, integer(Number(`0x${bytes.join('')}`))]
  return [
    ...pieces,
    { opcode, operands: [result, ...operands.slice(1)], guarded: false },
    { opcode: 'prmt.b32', operands: merged, guarded: true },
  ]
}
