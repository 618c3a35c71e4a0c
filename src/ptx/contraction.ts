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
  /** The products that it adds, the one that stands first in the instruction before the other. */
  readonly products: { readonly product: Product; readonly isFirst: boolean }[]
}

/** Halves in a word are multiplied and added as halves are. */
const TYPES = /^(f32|f64|b?f16(x2)?)$/

/**
 * What stands in the place of instructions, by their indices: nothing for a product, the fused operation for a sum.
 * @param starts The instructions that something jumps to, and those behind branches: none that are fused stand on both sides of one
 */
export function contractionsOf(
  code: readonly Decoded[],
  starts: ReadonlySet<number>,
): ReadonlyMap<number, readonly Decoded[]> {
  const replaced = new Map<number, readonly Decoded[]>()
  if (!code.some((each) => isContractable(each, 'mul'))) return replaced
  const { products, sums } = findIn(code, starts)
  for (const { product, sum, isFirst } of chosen(products, sums)) {
    replaced.set(product.index, [])
    replaced.set(sum.index, fused(product, sum, isFirst))
  }
  return replaced
}

function isContractable({ form, modifiers, instruction }: Decoded, ...opcodes: readonly string[]): boolean {
  if (!opcodes.includes(form.opcode) || modifiers['rnd'] !== undefined || !TYPES.test(modifiers['T'] ?? ''))
    return false
  return form.opcode !== 'mul' || (instruction.guard === undefined && modifiers['sat'] === undefined)
}

function registerOf(operand: Operand | undefined): Register | undefined {
  return operand?.kind === 'register' ? operand.register : undefined
}

/** The products whose only readers are sums of the same block, and these sums. */
function findIn(code: readonly Decoded[], starts: ReadonlySet<number>) {
  const reads = new Map<Register, number>()
  const products: Product[] = []
  const sums: Sum[] = []
  /** By the results: those whose result and factors have not changed since. */
  const current = new Map<Register, Product>()
  for (const [index, decoded] of code.entries()) {
    const accesses = accessesOf(decoded)
    for (const register of accesses.reads) reads.set(register, (reads.get(register) ?? 0) + 1)
    if (starts.has(index) || /^(call|membar|fence)$/.test(decoded.form.opcode)) current.clear()
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
      for (const [result, { decoded: product }] of current)
        if (result === written || accessesOf(product).reads.includes(written)) current.delete(result)
    }
    const result = registerOf(decoded.operands['d'])
    if (result === undefined || !isContractable(decoded, 'mul') || accesses.reads.includes(result)) continue
    const product = { index, decoded, result, sums: [] }
    products.push(product)
    current.set(result, product)
  }
  return { products: products.filter(({ result, sums }) => sums.length > 0 && sums.length === reads.get(result)), sums }
}

function isAlike(product: Decoded, sum: Decoded): boolean {
  return product.modifiers['T'] === sum.modifiers['T'] && product.modifiers['ftz'] === sum.modifiers['ftz']
}

/**
 * Which product each sum takes. One that another product is preferred to, in any of its sums, is computed for itself, and is then not taken
 * by its other sums.
 */
function chosen(products: readonly Product[], sums: readonly Sum[]) {
  const left = new Set(products)
  const choiceOf = (sum: Sum) => {
    const [one, other] = sum.products.filter(({ product }) => left.has(product))
    if (one === undefined || other === undefined) return one
    return other.product.sums.length < one.product.sums.length ? other : one
  }
  for (let refused: Product | undefined = products[0]; refused !== undefined; ) {
    refused = [...left].find((product) => product.sums.some((sum) => choiceOf(sum)?.product !== product))
    if (refused !== undefined) left.delete(refused)
  }
  return sums.flatMap((sum) => {
    const choice = choiceOf(sum)
    return choice === undefined ? [] : [{ ...choice, sum }]
  })
}

/** The register of the product is free: it takes what has to be negated. */
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
  const operation = made(`fma.rn${suffixes}.${modifiers['T']}`, [operands['d'], first, otherFactor, last])
  return isNegated ? [made(`neg.${modifiers['T']}`, [spare, negated], undefined), operation] : [operation]
}
