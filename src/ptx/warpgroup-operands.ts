/** What an assembler refuses of the operands of `wgmma`: fragments of another size or type, and signs, transpositions and counts that are no such constants. */
import type { Decoded } from './decoding.js'
import { bitsOf, type Operand } from './syntax.js'

/** The reason why an assembler refuses an instruction; undefined if it does not, and for other instructions. */
export function whyWarpgroupIsRefused({ operands, modifiers, form }: Decoded): string | undefined {
  if (form.opcode !== 'wgmma') return undefined
  if (form.pattern.startsWith('wgmma.wait_group')) {
    const count = constant(operands['a'])
    return count === undefined || count < 0n ? 'the number of groups is a constant, not below 0' : undefined
  }
  if (operands['d'] === undefined) return undefined
  const sums = Number(/n(\d+)k/.exec(modifiers['shape'] ?? '')?.[1] ?? 0) / (modifiers['D'] === 'f16' ? 4 : 2)
  return (
    fragment(operands['d'], sums, SUM_TYPES[modifiers['D'] ?? ''] ?? /^b32$/) ??
    matrix(operands['a'], modifiers['X'] ?? '') ??
    descriptor(operands['b']) ??
    oneOf(operands['e'], 'a sign', [1n, -1n]) ??
    oneOf(operands['f'], 'a sign', [1n, -1n]) ??
    oneOf(operands['t'], 'a transposition', [0n, 1n]) ??
    oneOf(operands['u'], 'a transposition', [0n, 1n]) ??
    oneOf(operands['i'], 'the selection of threads', /16$|32$/.test(modifiers['X'] ?? '') ? [0n, 1n] : [0n])
  )
}

const SUM_TYPES: Readonly<Record<string, RegExp>> = {
  f32: /^[bf]32$/,
  f16: /^(?:b32|f16x2)$/,
  s32: /^[bsu]32$/,
}

function constant(operand: Operand | undefined): bigint | undefined {
  return operand?.kind === 'integer' ? operand.value : undefined
}

function oneOf(operand: Operand | undefined, what: string, values: readonly bigint[]): string | undefined {
  if (operand === undefined) return undefined
  const value = constant(operand)
  if (value !== undefined && values.includes(value)) return undefined
  return `${what} is the constant ${values.join(' or ')}`
}

function fragment(operand: Operand | undefined, registers: number, types: RegExp): string | undefined {
  if (operand?.kind !== 'vector') return `the fragment has ${registers} registers in braces`
  if (operand.items.length !== registers) return `the fragment has ${registers} registers, not ${operand.items.length}`
  for (const each of operand.items) {
    if (each.kind !== 'register') return 'a fragment has registers alone'
    if (!types.test(each.register.type))
      return `'${each.register.name}' of .${each.register.type} is in no such fragment`
  }
  return undefined
}

function matrix(operand: Operand | undefined, type: string): string | undefined {
  if (operand?.kind === 'vector') return fragment(operand, 4, type === 'f16' ? /^(?:b32|f16x2)$/ : /^b32$/)
  return descriptor(operand)
}

function descriptor(operand: Operand | undefined): string | undefined {
  if (operand?.kind === 'integer') return undefined
  if (operand?.kind !== 'register' || !/^[bsu]/.test(operand.register.type) || bitsOf(operand.register.type) !== 64)
    return 'a descriptor is a register of 64 bits'
  return undefined
}
