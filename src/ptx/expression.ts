/**
 * The value that an instruction computes, as a formula: WebAssembly's text format, folded, in which operands are names.
 * `(i32.add a (i32.shl b 3))`. Beyond the text format there are: `T.` for the WebAssembly type of the instruction;
 * integers for constants of i32, `5L` of i64; `f:1.5` and `d:1.5` for floats, `f#7fffffff` and `d#7ff8000000000000` for
 * their bits; `(let x value body)`; `(if type condition then otherwise)`; `($name ..)` for a function of helpers.ts.
 */
import { bitsOfFloat } from './parser.js'
import type { FunctionBody, Signature, ValueType } from './wasm-encoder.js'

export type Formula = string | readonly Formula[]

/** The meaning of the names in a formula. */
export interface Environment {
  readonly body: FunctionBody
  /** The WebAssembly type that `T.` means. */
  readonly type: ValueType
  /** The type of an operand, or undefined if there is none of that name. */
  typeOf(name: string): ValueType | undefined
  push(name: string): void
  /** The value of an operand that the text gives as an integer. */
  constant(name: string): bigint | undefined
  helper(name: string): { readonly index: number; readonly signature: Signature<ValueType> }
  /** Writes a part of the formula where it is computed once for many threads; returns the local, or undefined if it cannot. */
  shared?(names: readonly string[], type: ValueType, write: () => void): number | undefined
}

const parsed = new Map<string, Formula>()

export function parseFormula(text: string): Formula {
  const known = parsed.get(text)
  if (known !== undefined) return known
  const tokens = text.match(/[()]|[^\s()]+/g) ?? []
  let at = 0
  const read = (): Formula => {
    const token = tokens[at++]
    if (token === undefined || token === ')') throw new Error(`A formula is cut off: ${text}`)
    if (token !== '(') return token
    const list: Formula[] = []
    while (tokens[at] !== ')') list.push(read())
    at++
    return list
  }
  const formula = read()
  if (at !== tokens.length) throw new Error(`A formula goes on behind its end: ${text}`)
  parsed.set(text, formula)
  return formula
}

const COMPARISON = /^[if](?:32|64)\.(?:eqz|eq|ne|[lg][te](?:_[su])?)$/

/** Emits the code of formulas into one function. */
export class FormulaWriter {
  readonly #names = new Map<string, { readonly type: ValueType; readonly local: number }>()

  constructor(private readonly environment: Environment) {}

  write(formula: Formula): void {
    if (typeof formula === 'string') this.#atom(formula)
    else this.#list(formula)
  }

  typeOf(formula: Formula): ValueType {
    if (typeof formula === 'string') {
      const known = this.#names.get(formula)?.type ?? this.environment.typeOf(formula)
      if (known !== undefined) return known
      if (/^-?\d.*L$/.test(formula)) return 'i64'
      if (/^f[:#]/.test(formula)) return 'f32'
      if (/^d[:#]/.test(formula)) return 'f64'
      return 'i32'
    }
    const head = this.#head(formula)
    if (head === 'let') return this.#typeInLet(formula)
    if (head === 'if') return String(formula[1]) === 'T' ? this.environment.type : (String(formula[1]) as ValueType)
    if (head === 'select') return this.typeOf(formula[1] ?? '')
    if (head.startsWith('$')) return this.environment.helper(head.slice(1)).signature.results[0] ?? 'i32'
    if (COMPARISON.test(head)) return 'i32'
    const type = head.slice(0, 3)
    return type === 'i64' || type === 'f32' || type === 'f64' ? type : 'i32'
  }

  #typeInLet(formula: readonly Formula[]): ValueType {
    const name = String(formula[1])
    const outer = this.#names.get(name)
    this.#names.set(name, { type: this.typeOf(formula[2] ?? ''), local: -1 })
    const type = this.typeOf(formula[3] ?? '')
    if (outer === undefined) this.#names.delete(name)
    else this.#names.set(name, outer)
    return type
  }

  #head(formula: readonly Formula[]): string {
    const head = formula[0]
    if (typeof head !== 'string') throw new Error('A formula begins with the name of an instruction')
    return head.startsWith('T.') ? this.environment.type + head.slice(1) : head
  }

  #atom(text: string): void {
    const { body } = this.environment
    const known = this.#names.get(text)
    if (known !== undefined) body.get(known.local)
    else if (this.environment.typeOf(text) !== undefined) this.environment.push(text)
    else if (/^-?(?:0x)?[\da-f]+L$/i.test(text)) body.i64(parseBig(text.slice(0, -1)))
    else if (/^-?(?:0x[\da-f]+|\d+)$/i.test(text)) body.i32(Number(text))
    else if (text.startsWith('f:')) body.f32(Number(bitsOfFloat(Number(text.slice(2)), 32)))
    else if (text.startsWith('d:')) body.f64(bitsOfFloat(Number(text.slice(2)), 64))
    else if (text.startsWith('f#')) body.f32(Number.parseInt(text.slice(2), 16))
    else if (text.startsWith('d#')) body.f64(BigInt(`0x${text.slice(2)}`))
    else throw new Error(`A formula has no operand '${text}'`)
  }

  #list(formula: readonly Formula[]): void {
    const { body } = this.environment
    const head = this.#head(formula)
    if (head === 'let') {
      const [, name = '', value = '', inner = ''] = formula
      const type = this.typeOf(value)
      this.write(value)
      const local = body.temporary(type)
      body.set(local)
      const outer = this.#names.get(String(name))
      this.#names.set(String(name), { type, local })
      this.write(inner)
      if (outer === undefined) this.#names.delete(String(name))
      else this.#names.set(String(name), outer)
      body.release(type, local)
      return
    }
    if (head === 'i32.const' || head === 'i64.const') {
      const value = parseBig(String(formula[1]).replace(/L$/, ''))
      if (head === 'i64.const') body.i64(value)
      else body.i32(Number(BigInt.asIntN(32, value)))
      return
    }
    if (head === 'if') {
      this.write(formula[2] ?? '')
      body.if(this.typeOf(formula))
      this.write(formula[3] ?? '')
      body.else()
      this.write(formula[4] ?? '')
      body.end()
      return
    }
    if (head === 'select') {
      const condition = this.#folded(formula[3] ?? '')
      if (condition !== undefined) {
        this.write(formula[condition ? 1 : 2] ?? '')
        return
      }
    }
    for (const each of formula.slice(1)) this.#part(each)
    if (head.startsWith('$')) body.call(this.environment.helper(head.slice(1)).index)
    else if (head.includes('.load') || head.includes('.store')) body.memory(head)
    else body.op(head)
  }

  /** Computes a product within a formula once for many threads, if its factors are the same for all of them. */
  #part(formula: Formula): void {
    if (typeof formula === 'string' || !/^i(?:32|64)\.mul$/.test(this.#head(formula))) {
      this.write(formula)
      return
    }
    const names = formula.slice(1)
    const areOperands = names.every((each): each is string => typeof each === 'string' && !this.#names.has(each))
    const local = areOperands
      ? this.environment.shared?.(names, this.typeOf(formula), () => this.write(formula))
      : undefined
    if (local === undefined) this.write(formula)
    else this.environment.body.get(local)
  }

  #folded(condition: Formula): boolean | undefined {
    return foldedComparison(condition, (operand) =>
      this.#names.has(operand) ? undefined : this.environment.constant(operand),
    )
  }
}

/** The value of a comparison of a constant operand with a limit, as the formulas of shifts have it; undefined for any other condition. */
export function foldedComparison(
  condition: Formula,
  constantOf: (operand: string) => bigint | undefined,
): boolean | undefined {
  if (typeof condition === 'string' || condition[0] !== 'i32.lt_u') return undefined
  const [, operand = '', limit = ''] = condition
  const constant = typeof operand === 'string' ? constantOf(operand) : undefined
  return constant === undefined ? undefined : BigInt.asUintN(32, constant) < BigInt(String(limit))
}

function parseBig(text: string): bigint {
  return text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text)
}
