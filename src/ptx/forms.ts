/**
 * Every form of instruction that this compiler knows, as one table; each family of forms has a file in forms/. The code generator, the table in
 * docs/internals/ptx.md and the tests of single forms are made from it.
 *
 * A pattern is an opcode with its modifiers: `?ftz` may be left out, `T:u32|s32` is one of several by the name T,
 * `?rnd:rn|rz` one of several that may be left out. Modifiers stand in any order, but `!` marks a word of the instruction's name, which stays
 * where it is: `mul.!lo` is no multiplication without it. Operands have a role and a type: d, p and q are written, the others
 * read, and `d+` is both; `W` is the type twice as wide as T. `->b1` stands for a destination of which only that part is written, as in `%r1.b1`, and `-ab` and `-c`
 * for operands with a minus (video-operands.ts).
 */
import { CLUSTER_FORMS } from './forms/clusters.js'
import { COMPARISON_FORMS } from './forms/comparisons.js'
import { CONTROL_FORMS } from './forms/control.js'
import { CONVERSION_FORMS } from './forms/conversions.js'
import { COPY_FORMS } from './forms/copies.js'
import { FLOAT_FORMS, FUSED_FORMS } from './forms/floats.js'
import type { Form, Modifiers, Slot } from './forms/form.js'
import { HALF_FORMS } from './forms/halves.js'
import { INTEGER_FORMS } from './forms/integers.js'
import { MATRIX_FORMS } from './forms/matrices.js'
import { MEMORY_FORMS } from './forms/memory.js'
import { TEXTURE_FORMS } from './forms/textures.js'
import { VIDEO_FORMS } from './forms/video.js'
import { WARPGROUP_FORMS } from './forms/warpgroup.js'
import { bitsOf } from './syntax.js'

export { conditionOf, packedConditions } from './forms/comparisons.js'
export { hardwareFma, softwareFma } from './forms/floats.js'
export type { Form, Modifiers } from './forms/form.js'

export const FORMS: readonly Form[] = [
  ...INTEGER_FORMS,
  ...VIDEO_FORMS,
  ...COMPARISON_FORMS,
  ...FLOAT_FORMS,
  ...HALF_FORMS,
  ...CONVERSION_FORMS,
  ...MEMORY_FORMS,
  ...COPY_FORMS,
  ...CLUSTER_FORMS,
  ...CONTROL_FORMS,
  ...MATRIX_FORMS,
  ...TEXTURE_FORMS,
  ...WARPGROUP_FORMS,
]

const byOpcode = new Map<string, Form[]>()
for (const each of [...FORMS, ...FUSED_FORMS]) {
  const known = byOpcode.get(each.opcode)
  if (known === undefined) byOpcode.set(each.opcode, [each])
  else known.push(each)
}

export interface Match {
  readonly form: Form
  readonly modifiers: Modifiers
  /** The opcode with its modifiers in the order of the table. */
  readonly canonical: string
}

const matches = new Map<string, readonly Match[]>()

/**
 * The forms that an opcode with its modifiers may be; the number of operands decides between several. Modifiers stand in any order, as an assembler
 * takes them: NVIDIA's own headers have `atom.add.release.gpu`, and `ldmatrix.sync.aligned.x4.m8n8.shared.b16`.
 */
export function matchForms(opcode: string): readonly Match[] {
  const known = matches.get(opcode)
  if (known !== undefined) return known
  const [head = '', ...words] = opcode.split('.')
  const found: Match[] = []
  const look = (fill: (slots: readonly Slot[], words: readonly string[]) => Modifiers | undefined): void => {
    for (const form of byOpcode.get(head) ?? []) {
      const modifiers = fill(form.slots, words)
      if (modifiers === undefined) continue
      const ordered = form.slots.flatMap(({ name }) => modifiers[name] ?? [])
      found.push({ form, modifiers, canonical: [head, ...ordered].join('.') })
    }
  }
  look(fitsInOrder)
  if (found.length === 0) look(fitsInAnyOrder)
  // The cache has a limit, so that texts from unknown sources cannot fill the memory.
  if (matches.size < 10_000) matches.set(opcode, found)
  return found
}

/** An opcode with its modifiers in the order of the table; one that is not known as it is. */
export function canonicalOpcode(opcode: string): string {
  return matchForms(opcode)[0]?.canonical ?? opcode
}

function fitsInOrder(slots: readonly Slot[], words: readonly string[]): Modifiers | undefined {
  const modifiers: Record<string, string> = {}
  return fits(slots, 0, words, 0, modifiers) ? modifiers : undefined
}

function fits(
  slots: readonly Slot[],
  slot: number,
  words: readonly string[],
  word: number,
  modifiers: Record<string, string>,
): boolean {
  const next = slots[slot]
  if (next === undefined) return word === words.length
  const text = words[word]
  if (text !== undefined && next.options.includes(text)) {
    modifiers[next.name] = text
    if (fits(slots, slot + 1, words, word + 1, modifiers)) return true
    delete modifiers[next.name]
  }
  return next.optional && fits(slots, slot + 1, words, word, modifiers)
}

/**
 * The kind of a modifier that an instruction may have several of, which keep their order among each other: types, of which the first is that of the
 * result; layouts of matrices; address spaces, of which the first is written. Other modifiers are known by their name alone.
 */
function kindOf(word: string): 'type' | 'layout' | 'space' | undefined {
  if (bitsOf(word) > 0 || /^[bsu]\d+$/.test(word)) return 'type'
  if (word === 'row' || word === 'col') return 'layout'
  return /^(?:global|shared|local|const|param)(?:::\w+)?$/.test(word) ? 'space' : undefined
}

function fitsInAnyOrder(slots: readonly Slot[], words: readonly string[]): Modifiers | undefined {
  const modifiers: Record<string, string> = {}
  const last = { name: -1, type: -1, layout: -1, space: -1 }
  let inName = true
  for (const word of words) {
    const kind = kindOf(word)
    const isFree = ({ name, options }: Slot): boolean => modifiers[name] === undefined && options.includes(word)
    let at = slots.findIndex((slot, index) => slot.ofName && inName && index > last.name && isFree(slot))
    if (at >= 0) last.name = at
    else {
      inName = false
      const behind = kind === undefined ? -1 : last[kind]
      at = slots.findIndex((slot, index) => !slot.ofName && index > behind && isFree(slot))
      if (kind !== undefined) last[kind] = at
    }
    const slot = slots[at]
    if (slot === undefined) return undefined
    modifiers[slot.name] = word
  }
  return slots.every(({ name, optional }) => optional || modifiers[name] !== undefined) ? modifiers : undefined
}
