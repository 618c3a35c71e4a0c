/** Writes the operations of mbarriers, the barriers that are objects in memory. */

import type { AddressWriter } from './address-writer.js'
import { type Decoded, operandOf } from './decoding.js'
import { SHADOW } from './layout.js'
import type { ValueWriter } from './value-writer.js'
import { call, type FunctionBody, i32, i64, memory, set } from './wasm-encoder.js'

/** The most bytes that a phase awaits. */
const MOST_BYTES = 2 ** 20 - 1
/** The bits of the bytes that are missing. */
const BYTES = 0x7fffffn << 40n

export class MbarrierWriter {
  constructor(
    private readonly writer: ValueWriter,
    private readonly addresses: AddressWriter,
  ) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  /**
   * Writes the operations of an mbarrier, a word of 64 bits: arrivals that are missing (bits 0 to 19), arrivals of each phase (20 to 39), bytes that
   * are missing (40 to 62, signed), and the parity of the phase (63).
   */
  write(decoded: Decoded): void {
    const body = this.#body
    // Copies count as an additional arrival unless the opcode says noinc. They are done already here, so neither changes anything.
    if (decoded.form.opcode === 'cp' && decoded.modifiers['noinc'] === undefined) {
      if (!this.writer.context.checked) return
      // The checks note that the mbarrier counts the copies.
      const access = SHADOW.read | SHADOW.written | SHADOW.atomic
      const space = decoded.modifiers['space'] === undefined ? 'generic' : 'shared'
      body.release('i32', this.addresses.locate(operandOf(decoded, 'a'), space, 8, access, decoded))
      return
    }
    const operation = decoded.modifiers['op'] ?? 'arrive'
    const operand = operandOf(decoded, 'a')
    const given = decoded.modifiers['space']
    const space = given === undefined ? 'generic' : given === 'shared::cluster' ? 'cluster' : 'shared'
    const address = this.addresses.locate(operand, space, 8, SHADOW.read | SHADOW.written | SHADOW.atomic, decoded)
    const old = body.temporary('i64')
    body.write(address, memory('i64.load'), set(old))
    const finish = (write: () => void): void => {
      body.get(address)
      write()
      body.write(call(this.writer.context.runtime('phase')), memory('i64.store'))
    }
    switch (operation) {
      case 'init':
        body.get(address)
        this.writer.push(operandOf(decoded, 'b'), 'u32')
        body.write('i64.extend_i32_u', i64(0x100001n), 'i64.mul', memory('i64.store'))
        break
      case 'inval':
        body.write(address, i64(0n), memory('i64.store'))
        break
      case 'expect_tx':
      case 'complete_tx':
        finish(() => {
          body.get(old)
          this.#transactions(decoded, operation === 'complete_tx')
        })
        break
      case 'test_wait':
      case 'try_wait':
        this.#waitResult(decoded, old, address)
        break
      default:
        finish(() => {
          body.get(old)
          const expects = decoded.modifiers['expect_tx'] !== undefined
          if (expects) this.#transactions(decoded, false)
          const count = decoded.operands['b']
          const arrivals = (): void => {
            if (count === undefined || expects) body.i64(1n)
            else {
              this.writer.push(count, 'u32')
              body.op('i64.extend_i32_u')
            }
          }
          arrivals()
          body.op('i64.sub')
          if (operation === 'arrive_drop') {
            // A thread that drops out is not awaited in later phases either.
            arrivals()
            body.write(i64(20n), 'i64.shl', 'i64.sub')
          }
        })
        if (decoded.operands['d']?.kind === 'register') {
          body.get(old)
          this.writer.pop(operandOf(decoded, 'd'), 'b64')
        }
    }
    body.release('i64', old)
    body.release('i32', address)
  }

  /** Adds to the bytes that are awaited, or subtracts those that have come. */
  #transactions(decoded: Decoded, came: boolean): void {
    const body = this.#body
    const [bytes, before] = [body.temporary('i32'), body.temporary('i64')]
    body.set(before)
    this.writer.push(operandOf(decoded, 'b'), 'u32')
    body.write(set(bytes), bytes, i32(MOST_BYTES), 'i32.gt_u')
    body.if()
    this.writer.fail('bytes', decoded)
    body.end()
    // More bytes may have come than are awaited yet: their number must not borrow from the parity.
    body.write(before, i64(~BYTES), 'i64.and', before, bytes, 'i64.extend_i32_u', i64(40n), 'i64.shl')
    body.write(came ? 'i64.sub' : 'i64.add', i64(BYTES), 'i64.and', 'i64.or')
    body.release('i32', bytes)
    body.release('i64', before)
  }

  /** Pushes whether the awaited phase is over: then the parity of the mbarrier differs from that of the phase. */
  #waitResult(decoded: Decoded, now: number, address: number): void {
    const body = this.#body
    const isOver = body.temporary('i32')
    body.write(now, i64(63n), 'i64.shr_u', 'i32.wrap_i64')
    const phase = operandOf(decoded, 'b')
    if (decoded.modifiers['parity'] !== undefined) {
      this.writer.push(phase, 'u32')
      body.write(i32(1), 'i32.and')
    } else {
      this.writer.push(phase, 'b64')
      body.write(i64(63n), 'i64.shr_u', 'i32.wrap_i64')
    }
    body.write('i32.ne', set(isOver), isOver, 'i32.eqz')
    body.if()
    const { context, thread } = this.writer
    body.write(i32(context.site(decoded).number), address, thread, call(context.runtime('missed')))
    body.end()
    body.get(isOver)
    this.writer.pop(operandOf(decoded, 'd'), 'pred')
    body.release('i32', isOver)
  }
}
