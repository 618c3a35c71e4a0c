/**
 * One kernel for each form of the table that computes something: it reads operands from an array, applies the form, and
 * writes the results. The same kernels are run by the simulator's engine and recorded on a GPU (record.ts).
 */
import { FORMS, type Form, type Modifiers } from '../../../src/ptx/forms.js'
import { randomNumbers } from '../machine.js'
import { widthOf } from './reference.js'

export interface FormCase {
  /** The opcode with all its modifiers. */
  readonly text: string
  readonly form: Form
  readonly modifiers: Modifiers
  /** The type of each operand, by name. */
  readonly types: Readonly<Record<string, string>>
  /** How many results there are. */
  readonly results: number
  /** Operands that are constants in the text. */
  readonly constants: Readonly<Record<string, bigint>>
}

/** A case at most has so many combinations of modifiers. */
const COMBINATIONS = 48
const CODED = new Set(['lop3', 'setp', 'carry'])
/** The table of lop3, in turns. */
const TABLES = [0x00n, 0xffn, 0xe8n, 0x96n, 0xcan, 0x1bn, 0xf0n, 0x80n, 0x69n, 0x3cn]

function combinations({ slots }: Form): (string | undefined)[][] {
  let all: (string | undefined)[][] = [[]]
  for (const { options, optional } of slots) {
    const choices: (string | undefined)[] = optional ? [undefined, ...options] : [...options]
    all = all.flatMap((chosen) => choices.map((choice) => [...chosen, choice]))
    // Long products are thinned out evenly, so that each choice stays.
    if (all.length > 4096) all = all.filter((_, index) => index % 7 < 4)
  }
  return all
}

/** What the manual does not allow, though the table takes it. */
function isRefused({ opcode, operands }: Form, m: Modifiers): boolean {
  const { T: type = '', S: source = '', cmp = '' } = m
  const compared = opcode === 'set' ? source : type
  if (cmp !== '') {
    const isFloat = /f/.test(compared)
    if (isFloat && /^(lo|ls|hi|hs)$/.test(cmp)) return true
    if (!isFloat && (/^(...|num|nan)$/.test(cmp) || (compared.startsWith('b') && !/^(eq|ne)$/.test(cmp)))) return true
    if (compared.startsWith('s') && /^(lo|ls|hi|hs)$/.test(cmp)) return true
    if (m['ftz'] && !/^(f32|f16|f16x2)$/.test(compared)) return true
    if (opcode === 'set') {
      const isHalf = /^(f16|bf16)$/.test(compared)
      if (/x2$/.test(compared)) return /^b/.test(type) || (/x2$/.test(type) && type !== compared)
      if (/^(f16|bf16)$/.test(type) || (/16$/.test(type) && !isHalf) || (type === 'f32' && isHalf)) return true
    }
  }
  if (Boolean(m['xorsign']) !== Boolean(m['abs']) && /^(min|max)$/.test(opcode) && operands.length === 3) return true
  if (m['sat'] && m['relu']) return true
  if (opcode === 'ex2') return /f16/.test(type) && Boolean(m['ftz']) !== /bf16/.test(type)
  if (/bf16/.test(type) && (m['ftz'] || m['sat'])) return true
  if (m['relu'] && type === 'u16x2') return true
  if (opcode === 'cvt') {
    if (m['ftz'] && type !== 'f32' && source !== 'f32') return true
    if (m['sat'] && /^(s|u)/.test(type) && !/^(s|u)/.test(source)) return true
    if (m['sat'] && type === 'f64' && source !== 'f64' && source !== 'f32') return true
    if (m['sat'] && (type === source || widthOf(type) > widthOf(source)) && !/f/.test(type + source)) return true
    if (/^bf16$/.test(source) && (m['sat'] || m['ftz'])) return true
    if (/8$/.test(type) && source === 'bf16') return true
    if (type === 'bf16' && /8$/.test(source)) return true
    if (m['satfinite'] && (m['sat'] || m['ftz'] || /^r[mp]$/.test(m['rnd'] ?? ''))) return true
    if (m['relu'] && (m['ftz'] || m['sat'] || /^r[mp]$/.test(m['rnd'] ?? ''))) return true
    if (type === 'tf32' && (m['satfinite'] || (m['relu'] && m['rnd'] === 'rna'))) return true
    if (type === source && /^f(16|32|64)$/.test(type) && !m['rnd'] && !m['sat'] && !m['ftz']) return true
  }
  return false
}

/** The forms whose references stand in tests of their own: narrow.test.ts, video.test.ts. */
const ELSEWHERE =
  /^cvt\..*(?:e2m1x2|ue8m0x2)|^(?:add|sub|fma)\..*T=f32\.S=f16\|bf16$|^v(?:add|sub|absdiff|min|max|shl|shr|mad|set[24]?)\./

/** All cases of a form. */
function casesOf(form: Form): readonly FormCase[] {
  const { meaning } = form
  if (ELSEWHERE.test(form.pattern)) return []
  if (meaning.kind === 'nothing' || meaning.kind === 'meeting') return []
  if (meaning.kind === 'code' && !CODED.has(meaning.code)) return []
  if (/^(mbarrier|createpolicy)$/.test(form.opcode)) return []
  const found: FormCase[] = []
  for (const [index, chosen] of combinations(form).entries()) {
    const modifiers: Record<string, string> = {}
    form.slots.forEach(({ name }, slot) => {
      const choice = chosen[slot]
      if (choice !== undefined) modifiers[name] = choice
    })
    if (isRefused(form, modifiers)) continue
    const types: Record<string, string> = {}
    const constants: Record<string, bigint> = {}
    for (const { name, type } of form.operands) {
      const own = modifiers[type] ?? (type === 'W' ? '' : type)
      const narrow = modifiers['T'] ?? 'u32'
      types[name] = own === '' ? `${narrow[0]}${2 * widthOf(narrow)}` : own
    }
    const isLop3 = form.opcode === 'lop3'
    if (isLop3) constants['e'] = TABLES[(index * 7 + found.length) % TABLES.length] ?? 0n
    const text = [form.opcode, ...chosen.filter((each) => each !== undefined)].join('.')
    const isPair = (form.opcode === 'setp' && !/^b?f16$/.test(modifiers['T'] ?? '')) || /lop3\.B/.test(form.pattern)
    const base = { text, form, modifiers, types, results: isPair ? 2 : 1 }
    if (isLop3) for (const table of TABLES) found.push({ ...base, constants: { e: table } })
    else found.push({ ...base, constants })
  }
  const step = Math.max(1, Math.ceil(found.length / COMBINATIONS))
  return found.filter((_, index) => index % step === 0)
}

/** What tells a case from all others: the opcode, how many operands it reads, and the constants in the text. */
export function keyOf({ text, constants, form }: FormCase): string {
  const reads = form.operands.filter(({ written }) => !written).length
  return [text, reads, ...Object.values(constants)].join(' ')
}

export function allCases(): readonly FormCase[] {
  const seen = new Set<string>()
  return FORMS.flatMap(casesOf).filter((each) => {
    const key = keyOf(each)
    if (seen.has(key)) return false
    seen.add(key)
    return true
  })
}

/** The register type that holds an operand, and the bits that are loaded for it. */
function registerType(type: string): string {
  if (type === 'pred') return 'pred'
  if (type === 'f32' || type === 'f64') return type
  const width = widthOf(type)
  return `b${width === 8 ? 16 : width}`
}

/** Whether a form came with sm_100: two f32 in a word, and the least of three. */
export function isNew({ form, types }: FormCase): boolean {
  return types['d'] === 'f32x2' || (/^(min|max)$/.test(form.opcode) && form.operands.length === 4)
}

/** PTX with a kernel `k0`, `k1`, … for each case. */
export function ptxOfCases(cases: readonly FormCase[]): string {
  const target = cases.some(isNew) ? 'sm_100' : 'sm_90'
  const kernels = cases.map((each, index) => kernelOf(each, `k${index}`))
  return `.version ${target === 'sm_100' ? '8.8' : '8.4'}\n.target ${target}\n.address_size 64\n${kernels.join('\n')}`
}

function kernelOf({ text, form, types, results, constants }: FormCase, name: string): string {
  const lines: string[] = []
  const inputs = form.operands.filter(({ name: operand, written }) => !written && constants[operand] === undefined)
  const declared: string[] = []
  inputs.forEach(({ name: operand }, index) => {
    const type = types[operand] ?? 'b32'
    const register = registerType(type)
    declared.push(`.reg .${register} %${operand};`)
    const address = `[%in+${8 * index}]`
    if (type === 'pred') {
      lines.push(`ld.global.u32 %word, ${address};`, 'and.b32 %word, %word, 1;', `setp.ne.u32 %${operand}, %word, 0;`)
    } else if (widthOf(type) === 8)
      lines.push(`ld.global.${type.startsWith('s') ? 's8' : 'u8'} %${operand}, ${address};`)
    else lines.push(`ld.global.${register} %${operand}, ${address};`)
  })
  const resultType = types['d'] ?? 'b32'
  const targets = results === 2 ? (form.opcode === 'setp' ? ['%d0', '%d1'] : ['%d0', '%q1']) : ['%d0']
  declared.push(`.reg .${registerType(resultType)} %d0, %d1;`, '.reg .pred %q1;')
  const operands = form.operands
    .filter(({ written }) => !written)
    .map(({ name: operand }) => constants[operand]?.toString() ?? `%${operand}`)
  const carries = form.meaning.kind === 'code' && form.meaning.code === 'carry'
  // A carry that goes in is made first, one that comes out is taken after.
  if (carries) lines.push('add.cc.u32 %word, %seed, -1;')
  lines.push(`${text} ${[targets.join('|'), ...operands].join(', ')};`)
  targets.forEach((target, index) => {
    const isPredicate = resultType === 'pred' || (index === 1 && form.opcode !== 'setp')
    const address = `[%out+${8 * index}]`
    if (isPredicate) lines.push(`selp.u32 %word, 1, 0, ${target};`, `st.global.u32 ${address}, %word;`)
    else if (widthOf(resultType) === 8) lines.push(`st.global.b8 ${address}, ${target};`)
    else lines.push(`st.global.${registerType(resultType)} ${address}, ${target};`)
  })
  if (carries) lines.push('addc.u32 %word, 0, 0;', 'st.global.u32 [%out+8], %word;')
  return `.visible .entry ${name}(.param .u64 inputs, .param .u64 outputs, .param .u32 count)
{
.reg .u32 %index, %word, %n, %seed;
.reg .u64 %in, %out, %wide;
.reg .pred %over;
${declared.join('\n')}
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [outputs];
ld.param.u32 %n, [count];
mov.u32 %index, %tid.x;
and.b32 %seed, %index, 1;
setp.ge.u32 %over, %index, %n;
@%over ret;
mul.wide.u32 %wide, %index, ${8 * Math.max(1, inputs.length)};
add.s64 %in, %in, %wide;
mul.wide.u32 %wide, %index, 16;
add.s64 %out, %out, %wide;
${lines.join('\n')}
ret;
}`
}

/** The operands that a case reads from memory, in order. */
export function inputsOf({ form, constants }: FormCase): readonly string[] {
  return form.operands.filter(({ name, written }) => !written && constants[name] === undefined).map(({ name }) => name)
}

/** Values of floats where something begins or ends, by the type. */
export const SPECIAL: Readonly<Record<string, readonly bigint[]>> = {
  f32: [
    0n,
    0x80000000n,
    0x3f800000n,
    0xbf800000n,
    0x7f800000n,
    0xff800000n,
    0x7fc00000n,
    0x7f800001n,
    1n,
    0x80000001n,
    0x7fffffn,
    0x800000n,
    0x7f7fffffn,
    0xff7fffffn,
    0x3f000000n,
    0x3fc00000n,
    0x4b000001n,
    0x4effffffn,
    0x4f000000n,
    0xcf000000n,
    0x4f7fffffn,
    0x5f000000n,
    0x477fefffn,
    0x477ff000n,
    0x33800000n,
    0xffc00000n,
    0xffffffffn,
    0x7fc12345n,
    0xff812345n,
  ],
  f64: [
    0n,
    0x8000000000000000n,
    0x3ff0000000000000n,
    0xbff0000000000000n,
    0x7ff0000000000000n,
    0xfff0000000000000n,
    0x7ff8000000000000n,
    1n,
    0x8000000000000001n,
    0xfffffffffffffn,
    0x10000000000000n,
    0x7fefffffffffffffn,
    0x3fe0000000000000n,
    0x3ff8000000000000n,
    0x41dfffffffc00000n,
    0x41e0000000000000n,
    0x43e0000000000000n,
    0x36a0000000000000n,
    0x47efffffefffffffn,
    0x3ff0000010000000n,
    0x3ff0000030000000n,
    0xfff8000000000000n,
    0x7ff8000012345678n,
    0xfffc123456789abcn,
    0x7ff0000000000001n,
    0xfff4000000000000n,
  ],
  f16: [
    0n,
    0x8000n,
    0x3c00n,
    0xbc00n,
    0x7c00n,
    0xfc00n,
    0x7e00n,
    1n,
    0x8001n,
    0x3ffn,
    0x400n,
    0x7bffn,
    0xfbffn,
    0x3800n,
    0x3e00n,
  ],
  bf16: [
    0n,
    0x8000n,
    0x3f80n,
    0xbf80n,
    0x7f80n,
    0xff80n,
    0x7fc0n,
    1n,
    0x8001n,
    0x7fn,
    0x80n,
    0x7f7fn,
    0xff7fn,
    0x3f00n,
    0x3fc0n,
  ],
}

/** Operands for `count` threads: every special value, values near each other, and random ones. */
export function operandsFor(each: FormCase, count: number): BigUint64Array {
  const names = inputsOf(each)
  const random = randomNumbers([...each.text].reduce((hash, letter) => (hash * 31 + letter.charCodeAt(0)) | 0, 7))
  const word = (): bigint => BigInt(Math.floor(random() * 2 ** 32))
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  const operandOf = (type: string): bigint => {
    const width = widthOf(type)
    const all = (word() << 32n) | word()
    if (type === 'f32x2') return (operandOf('f32') << 32n) | operandOf('f32')
    if (/x2$/.test(type) && /f16/.test(type))
      return (operandOf(type.slice(0, -2)) << 16n) | operandOf(type.slice(0, -2))
    const special = SPECIAL[type]
    if (special !== undefined) {
      const way = random()
      if (way < 0.4) return pick(special)
      if (way < 0.7) return BigInt.asUintN(width, all)
      // Of a size that sums and products stay within.
      const [exponentBits, fractionBits] =
        type === 'f64' ? [11, 52] : type === 'f16' ? [5, 10] : type === 'bf16' ? [8, 7] : [8, 23]
      const middle = BigInt(
        2 ** (exponentBits - 1) - 1 + Math.floor((random() - 0.5) * 2 * Math.min(40, 2 ** (exponentBits - 2))),
      )
      return (
        ((all & 1n) << BigInt(width - 1)) | (middle << BigInt(fractionBits)) | BigInt.asUintN(fractionBits, all >> 8n)
      )
    }
    const way = random()
    if (way < 0.3)
      return BigInt.asUintN(
        width,
        pick([
          0n,
          1n,
          -1n,
          2n,
          31n,
          32n,
          33n,
          63n,
          64n,
          255n,
          256n,
          1n << BigInt(width - 1),
          (1n << BigInt(width - 1)) - 1n,
        ]),
      )
    if (way < 0.6) return BigInt.asUintN(width, all >> BigInt(Math.floor(random() * 64)))
    return BigInt.asUintN(width, all)
  }
  return BigUint64Array.from({ length: count * names.length }, (_, index) =>
    operandOf(each.types[names[index % names.length] ?? ''] ?? 'b32'),
  )
}
