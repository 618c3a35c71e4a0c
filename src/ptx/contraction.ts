/**
 * Products and sums that a GPU's assembler makes one fused multiply-add of. The manual allows it for `mul` with `add` or `sub` where none of
 * them names a rounding, and leaves open where it is done: here it is done where ptxas 13.0 does so (docs/internals/ptx.md).
 */
import { accessesOf, type Decoded, decode } from './decoding.js'
import type { Operand, Register } from './syntax.js'

interface Product {
  readonly index: number
  readonly decoded: Decoded
  readonly result: Register
  readonly sums: Sum[]
}

interface Sum {
  readonly index: number
  readonly decoded: Decoded
  /** The products that the sum may add; the one that comes first in the instruction comes first here. */
  readonly products: { readonly product: Product; readonly isFirst: boolean }[]
}

/** The types that are fused: two halves in a word are multiplied and added as halves are. */
const TYPES = /^(f32|f64|b?f16(x2)?)$/

/**
 * The instructions that replace others; keys are indices: no instruction for a product, the fused operation for a sum.
 * @param starts The instructions that something jumps to, and those behind branches: a product and a sum on both sides of one are not fused
 */
export function contractionsOf(
  code: readonly Decoded[],
  starts: ReadonlySet<number>,
): ReadonlyMap<number, readonly Decoded[]> {
  const replaced = new Map<number, readonly Decoded[]>()
  if (!code.some(isProduct)) return replaced
  const { products, sums } = findIn(code, starts)
  for (const { product, sum, isFirst } of chosen(products, sums)) {
    replaced.set(product.index, [])
    replaced.set(sum.index, fused(product, sum, isFirst))
  }
  return replaced
}

function isContractable({ form, modifiers, instruction }: Decoded, ...opcodes: readonly string[]): boolean {
  // A sum of two types, as in add.f32.bf16, is no sum of products.
  if (modifiers['S'] !== undefined) return false
  if (!opcodes.includes(form.opcode) || modifiers['rnd'] !== undefined || !TYPES.test(modifiers['T'] ?? ''))
    return false
  return form.opcode !== 'mul' || (instruction.guard === undefined && modifiers['sat'] === undefined)
}

/** Whether ptxas 13.0 fuses no product before an instruction with a sum behind it: of most it makes branches or a call. */
function endsBlock({ form: { opcode }, modifiers }: Decoded): boolean {
  const type = modifiers['T'] ?? ''
  if (/^(call|membar|fence)$/.test(opcode)) return true
  if (opcode === 'rsqrt') return type === 'f64' && modifiers['ftz'] === undefined
  if (!/^(div|rem|rcp|sqrt)$/.test(opcode)) return false
  if (type.startsWith('f')) return modifiers['rnd'] !== undefined && modifiers['rnd'] !== 'approx'
  return type !== 'u32'
}

/** A product, or a division by an approximation, which ends with the product of the dividend and the reciprocal. */
function isProduct(decoded: Decoded): boolean {
  const { form, modifiers, instruction } = decoded
  if (form.opcode === 'div') return modifiers['M'] !== undefined && instruction.guard === undefined
  return isContractable(decoded, 'mul')
}

function registerOf(operand: Operand | undefined): Register | undefined {
  return operand?.kind === 'register' ? operand.register : undefined
}

/** The products whose only readers are sums of the same block, and these sums. */
function findIn(code: readonly Decoded[], starts: ReadonlySet<number>) {
  const reads = new Map<Register, number>()
  const products: Product[] = []
  const sums: Sum[] = []
  /** The products whose result and factors have not changed since they were computed; keys are the results. */
  const current = new Map<Register, Product>()
  /** The results of the products that read each register. */
  const readers = new Map<Register, Set<Register>>()
  for (const [index, decoded] of code.entries()) {
    const accesses = accessesOf(decoded)
    for (const register of accesses.reads) reads.set(register, (reads.get(register) ?? 0) + 1)
    if (starts.has(index) || endsBlock(decoded)) current.clear()
    if (isContractable(decoded, 'add', 'sub')) {
      const sum: Sum = { index, decoded, products: [] }
      const [a, b] = [registerOf(decoded.operands['a']), registerOf(decoded.operands['b'])]
      for (const register of a === b ? [] : [a, b]) {
        const product = register && current.get(register)
        if (product === undefined || !isAlike(product.decoded, decoded)) continue
        product.sums.push(sum)
        sum.products.push({ product, isFirst: register === a })
      }
      if (sum.products.length > 0) sums.push(sum)
    }
    for (const written of accesses.writes) {
      current.delete(written)
      for (const result of readers.get(written) ?? []) {
        // Its register may hold another product by now.
        const product = current.get(result)
        if (product !== undefined && accessesOf(product.decoded).reads.includes(written)) current.delete(result)
      }
      readers.delete(written)
    }
    const result = registerOf(decoded.operands['d'])
    if (result === undefined || !isProduct(decoded) || accesses.reads.includes(result)) continue
    const product = { index, decoded, result, sums: [] }
    products.push(product)
    current.set(result, product)
    for (const register of accesses.reads) {
      const known = readers.get(register)
      if (known === undefined) readers.set(register, new Set([result]))
      else known.add(result)
    }
  }
  return { products: products.filter(({ result, sums }) => sums.length > 0 && sums.length === reads.get(result)), sums }
}

function isAlike(product: Decoded, sum: Decoded): boolean {
  return product.modifiers['T'] === sum.modifiers['T'] && product.modifiers['ftz'] === sum.modifiers['ftz']
}

/** The product that each sum takes. If any of a product's sums prefers another product, the product is computed for itself and no sum takes it. */
function chosen(products: readonly Product[], sums: readonly Sum[]) {
  const left = new Set(products)
  const choiceOf = (sum: Sum) => {
    const [one, other] = sum.products.filter(({ product }) => left.has(product))
    if (one === undefined || other === undefined) return one
    return other.product.sums.length < one.product.sums.length ? other : one
  }
  // The first product that is refused is left out first: those before are looked at again only if they share a sum with it.
  const positions = new Map(products.map((product, index) => [product, index]))
  const again = new Set<number>()
  for (let next = 0; next < products.length || again.size > 0; ) {
    const index = again.size > 0 ? Math.min(...again) : next++
    again.delete(index)
    const product = products[index]
    if (product === undefined || !left.has(product)) continue
    if (product.sums.every((sum) => choiceOf(sum)?.product === product)) continue
    left.delete(product)
    for (const { products: sharing } of product.sums) {
      for (const { product: other } of sharing) {
        const position = positions.get(other)
        if (position !== undefined && position < next) again.add(position)
      }
    }
  }
  return sums.flatMap((sum) => {
    const choice = choiceOf(sum)
    return choice === undefined ? [] : [{ ...choice, sum }]
  })
}

/** The fused operation that replaces a product and its sum. The register of the product is free then: it takes what has to be negated. */
function fused({ decoded: product, result }: Product, { decoded: sum }: Sum, isFirst: boolean): readonly Decoded[] {
  const { form, instruction, modifiers, operands } = sum
  const spare: Operand = { kind: 'register', register: result }
  const [factor, otherFactor] = [product.operands['a'], product.operands['b']]
  const added = operands[isFirst ? 'b' : 'a']
  const isNegated = form.opcode === 'sub'
  const negated = isFirst ? added : factor
  const made = (opcode: string, of: readonly (Operand | undefined)[], guard = instruction.guard): Decoded =>
    decode({ ...instruction, guard, opcode, operands: of.filter((operand) => operand !== undefined) })
  const suffixes = ['ftz', 'sat'].map((name) => (modifiers[name] === undefined ? '' : `.${name}`)).join('')
  const [first, last] = [isNegated && !isFirst ? spare : factor, isNegated && isFirst ? spare : added]
  const kind = product.form.opcode === 'div' ? `div-add.${product.modifiers['M']}` : 'fma.rn'
  const operation = made(`${kind}${suffixes}.${modifiers['T']}`, [operands['d'], first, otherFactor, last])
  return isNegated ? [made(`neg.${modifiers['T']}`, [spare, negated], undefined), operation] : [operation]
}
