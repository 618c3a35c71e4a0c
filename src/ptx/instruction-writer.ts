/** Writes instructions: a formula where the table of forms has one, and elsewhere by the writer that knows the instruction. */

import { AccessWriter } from './access-writer.js'
import { AddressWriter } from './address-writer.js'
import { ArithmeticWriter } from './arithmetic-writer.js'
import { AsynchronousWriter } from './asynchronous-writer.js'
import { AtomicWriter } from './atomic-writer.js'
import { CallWriter } from './call-writer.js'
import { CountWriter } from './count-writer.js'
import { type Decoded, operandOf } from './decoding.js'
import { hardwareFma, softwareFma } from './forms.js'
import { MbarrierWriter } from './mbarrier-writer.js'
import { MoveWriter } from './move-writer.js'
import { slotType } from './register-types.js'
import { TextureWriter } from './texture-writer.js'
import type { ValueWriter } from './value-writer.js'
import type { FunctionBody } from './wasm-encoder.js'

/** The ends of groups of cp.async and the waits for them, which only the checks notice. */
const GROUPS_OF_COPIES = /^cp\.async\.(?:commit_group|wait_group|wait_all)/
/** The fences that order accesses for other blocks, too. */
const FENCE_OF_BLOCKS = /^(?:membar\.(?:gl|sys)|fence\.(?!proxy|mbarrier).*(?:cluster|gpu|sys))/
/** The formula of a * b + c for a product that is exact unless it is very small or large: then fusing changes nothing. */
const SCALED_SUM = `(let p (f64.mul a b) (if f64
  (i32.lt_u (i32.sub (i32.and (i32.wrap_i64 (i64.shr_u (i64.reinterpret_f64 p) 52L)) 2047) 100) 1900)
  (f64.add p c) ($fma64 a b c)))`

export class InstructionWriter {
  readonly addresses: AddressWriter
  readonly calls: CallWriter
  readonly counts: CountWriter
  readonly #arithmetic: ArithmeticWriter
  readonly #moves: MoveWriter
  readonly #accesses: AccessWriter
  readonly #asynchronous: AsynchronousWriter
  readonly #atomics: AtomicWriter
  readonly #mbarriers: MbarrierWriter
  readonly #textures: TextureWriter

  constructor(private readonly writer: ValueWriter) {
    this.addresses = new AddressWriter(writer)
    this.#arithmetic = new ArithmeticWriter(writer)
    this.#moves = new MoveWriter(writer)
    this.#accesses = new AccessWriter(writer, this.addresses)
    this.#asynchronous = new AsynchronousWriter(writer)
    this.#atomics = new AtomicWriter(writer, this.addresses)
    this.#mbarriers = new MbarrierWriter(writer, this.addresses)
    this.#textures = new TextureWriter(writer, this.#accesses)
    this.calls = new CallWriter(writer, this.#accesses)
    this.counts = new CountWriter(writer, this.addresses)
    writer.define = (decoded) => this.write(decoded)
  }

  get #body(): FunctionBody {
    return this.writer.body
  }

  write(decoded: Decoded): void {
    this.writer.current = decoded
    const { meaning } = decoded.form
    if (meaning.kind === 'formula') this.#formula(decoded, meaning.formula(decoded.modifiers), meaning.arithmetic)
    else if (meaning.kind === 'code') this.#code(meaning.code, decoded)
    else if (this.writer.context.checked) {
      if (FENCE_OF_BLOCKS.test(decoded.instruction.opcode)) this.#body.call(this.writer.context.runtime('fence'))
      else if (GROUPS_OF_COPIES.test(decoded.instruction.opcode)) this.#asynchronous.write(decoded)
    }
  }

  #formula(decoded: Decoded, text: string, arithmetic: boolean): void {
    const { writer } = this
    const target = operandOf(decoded, 'd')
    const [slot] = decoded.form.operands
    const formula = writer.context.hardwareFma ? hardwareFma(text) : softwareFma(this.scaled(decoded, text))
    writer.formula(formula, decoded)
    writer.pop(target, slotType(slot?.type ?? 'T', decoded), arithmetic)
  }

  /** The formula of an instruction where its multiply-add is computed, which is simpler if one factor is a power of two. */
  scaled(decoded: Decoded, text: string): string {
    return this.#isScaled(decoded) ? text.replace('(fma64 a b c)', SCALED_SUM) : text
  }

  /** Whether a product is exact since one factor is a power of two, as in averages. */
  #isScaled({ operands }: Decoded): boolean {
    return ['a', 'b'].some((name) => {
      const operand = operands[name]
      const value =
        operand?.kind === 'float'
          ? operand.value
          : operand?.kind === 'register'
            ? this.writer.fn.facts.constants.get(operand.register.id)
            : undefined
      if (value === undefined || !(Math.abs(value) > 1e-9 && Math.abs(value) < 1e9)) return false
      return Number.isInteger(Math.log2(Math.abs(value)))
    })
  }

  #code(code: string, decoded: Decoded): void {
    const write = this.#writers[code]
    if (write === undefined) throw new Error(`No code is written for '${code}'`)
    write(decoded)
  }

  readonly #writers: Readonly<Record<string, (decoded: Decoded) => void>> = {
    lop3: (decoded) => this.#arithmetic.lop3(decoded),
    carry: (decoded) => this.#arithmetic.carry(decoded),
    setp: (decoded) => this.#arithmetic.setp(decoded),
    pack: (decoded) => this.#arithmetic.pack(decoded),
    mov: (decoded) => this.#moves.mov(decoded),
    cvta: (decoded) => this.#moves.cvta(decoded),
    isspacep: (decoded) => this.#moves.isspacep(decoded),
    load: (decoded) => this.#accesses.load(decoded),
    store: (decoded) => this.#accesses.store(decoded),
    atomic: (decoded) => this.#atomics.write(decoded),
    copy: (decoded) => this.#accesses.copy(decoded),
    mbarrier: (decoded) => this.#mbarriers.write(decoded),
    asynchronous: (decoded) => this.#asynchronous.write(decoded),
    proxy: (decoded) => this.#asynchronous.proxyFence(decoded),
    mapa: (decoded) => this.#asynchronous.mapa(decoded),
    getctarank: (decoded) => this.#asynchronous.getctarank(decoded),
    nanosleep: (decoded) => {
      this.writer.push(operandOf(decoded, 'a'), 'u32')
      this.#body.call(this.writer.context.runtime('sleep'))
    },
    call: (decoded) => this.calls.call(decoded),
    alloca: (decoded) => this.calls.alloca(decoded),
    stack: (decoded) => this.calls.stackPointer(decoded),
    texture: (decoded) => this.#textures.write(decoded),
    // Launches of a kernel that has one are refused, so that none is ever reached.
    'other texture': () => this.#body.op('unreachable'),
  }
}
