/** Writes calls, with their arguments and results, and what changes the stack of a thread. */

import type { AccessWriter } from './access-writer.js'
import { calleeOf } from './control-flow.js'
import { callParts, type Decoded, errorAt, operandOf } from './decoding.js'
import { type CallLayout, callLayout, FRAME, FUNCTION_WINDOW, LAUNCH } from './layout.js'
import { HOST_FUNCTIONS, prototypeOf } from './program.js'
import { bitsOf, type Operand, type Register, type Variable } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { call, type FunctionBody, i32, i64, memory, set, tee } from './wasm-encoder.js'

export class CallWriter {
  constructor(
    private readonly writer: ValueWriter,
    private readonly accesses: AccessWriter,
  ) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  /** Pushes the location at which the frame of a called function begins. */
  #pushTop(): void {
    const body = this.#body
    body.get(this.writer.stack)
    if (this.writer.usesAlloca) body.memory('i32.load', this.writer.fn.frame.top)
    else {
      body.write(i32(this.writer.fn.frame.byteLength), 'i32.add')
    }
  }

  #layoutOf(decoded: Decoded): CallLayout {
    const callee = calleeOf(decoded)
    const { text } = this.writer.context.program
    if (callee !== undefined) {
      const fn = text.functions.get(text.aliases.get(callee) ?? callee)
      if (fn === undefined) throw errorAt(`The function '${callee}' is declared nowhere`, decoded)
      return callLayout(fn)
    }
    const layout = prototypeOf(decoded, text)
    if (layout === undefined) throw errorAt('A call through a pointer needs a prototype', decoded)
    return layout
  }

  /** Copies the arguments into the frame of the called function, which begins at `top`. */
  #passParameters(decoded: Decoded, layout: CallLayout, top: number): void {
    const { parameters } = callParts(decoded.instruction)
    if (parameters.length < layout.parameters.length)
      throw errorAt(`This call passes ${parameters.length} arguments of ${layout.parameters.length}`, decoded)
    for (const [index, { offset, variable }] of layout.parameters.entries()) {
      const operand = parameters[index]
      const given = operand === undefined ? undefined : this.writer.variableOf(operand)
      if (operand?.kind === 'symbol' && given?.space === 'param') {
        this.#copyBytes(top, offset, this.writer.stack, this.writer.frameOffset(given) ?? 0, variable.byteLength, given)
      } else if (operand !== undefined)
        this.accesses.storeOne(operand, this.#argumentType(operand, variable), top, offset)
    }
  }

  /** Loads a parameter that is a register: as many bytes as it is wide, since the next parameter lies directly behind it. */
  receiveParameter(register: Register, offset: number): void {
    const operand: Operand = { kind: 'register', register }
    this.accesses.loadOne(operand, typeInMemory(register), this.writer.stack, offset)
  }

  /** Stores a result that is a register. */
  leaveResult(register: Register, offset: number): void {
    const operand: Operand = { kind: 'register', register }
    this.accesses.storeOne(operand, typeInMemory(register), this.writer.stack, offset)
  }

  #argumentType(operand: Operand, variable: Variable): string {
    return operand.kind === 'register' ? typeInMemory(operand.register) : variable.type
  }

  #copyBytes(
    to: number,
    toOffset: number,
    from: number,
    fromOffset: number,
    byteLength: number,
    given: Variable,
  ): void {
    const body = this.#body
    const fromKernel = this.writer.frameOffset(given) === undefined
    const base = fromKernel ? this.writer.launch : from
    const shift = fromKernel
      ? LAUNCH.parameters + (this.writer.context.program.parameters.offsets.get(given) ?? 0)
      : fromOffset
    let at = 0
    for (const [width, load, store] of [
      [8, 'i64.load', 'i64.store'],
      [4, 'i32.load', 'i32.store'],
      [2, 'i32.load16_u', 'i32.store16'],
      [1, 'i32.load8_u', 'i32.store8'],
    ] as const) {
      if (byteLength > 256 && at === 0) {
        body.write(to, i32(toOffset), 'i32.add', base, i32(shift), 'i32.add', i32(byteLength), 'memory.copy')
        return
      }
      for (; at + width <= byteLength; at += width) {
        body.write(to, base, memory(load, shift + at), memory(store, toOffset + at))
      }
    }
  }

  /** Copies the results out of the frame of the function that was called. */
  receiveResults(decoded: Decoded): void {
    this.writer.current = decoded
    const body = this.#body
    const top = body.temporary('i32')
    this.#pushTop()
    body.set(top)
    this.#takeResults(decoded, this.#layoutOf(decoded), top)
    body.release('i32', top)
  }

  #takeResults(decoded: Decoded, layout: CallLayout, top: number): void {
    const { results } = callParts(decoded.instruction)
    for (const [index, operand] of results.entries()) {
      const from = layout.results[index]
      if (from === undefined) throw errorAt('This function has fewer results', decoded)
      const variable = this.writer.variableOf(operand)
      if (variable?.space === 'param') {
        const offset = this.writer.frameOffset(variable) ?? 0
        this.#copyResult(offset, top, from.offset, Math.min(from.variable.byteLength, variable.byteLength))
      } else if (operand.kind === 'register')
        this.accesses.loadOne(operand, this.#argumentType(operand, from.variable), top, from.offset)
    }
  }

  #copyResult(toOffset: number, top: number, fromOffset: number, byteLength: number): void {
    const body = this.#body
    body.write(
      this.writer.stack,
      i32(toOffset),
      'i32.add',
      top,
      i32(fromOffset),
      'i32.add',
      i32(byteLength),
      'memory.copy',
    )
  }

  call(decoded: Decoded): void {
    const body = this.#body
    const { context } = this.writer
    const { program } = context
    const layout = this.#layoutOf(decoded)
    const top = body.temporary('i32')
    this.#pushTop()
    body.set(top)
    this.#passParameters(decoded, layout, top)
    const callee = calleeOf(decoded)
    const name = callee === undefined ? undefined : (program.text.aliases.get(callee) ?? callee)
    const fn = name === undefined ? undefined : program.functions.get(name)
    if (name !== undefined && fn === undefined && HOST_FUNCTIONS.has(name)) this.#callHost(name, layout, top, decoded)
    else if (fn !== undefined) {
      this.#pushCallContext(top)
      body.call(context.direct(fn))
    } else if (name === undefined) {
      this.#pushCallContext(top)
      this.#pushFunctionNumber(decoded)
      body.callIndirect(context.directType())
    } else throw errorAt(`The function '${name}' is not in this module`, decoded)
    this.#takeResults(decoded, layout, top)
    body.release('i32', top)
  }

  #pushCallContext(top: number): void {
    const body = this.#body
    body.write(this.writer.block, this.writer.frame, this.writer.thread, top)
  }

  /** Pushes the number in the address of a function; an address that is not one of a function is a fault. */
  #pushFunctionNumber(decoded: Decoded): void {
    const body = this.#body
    const number = body.temporary('i64')
    this.writer.push(callParts(decoded.instruction).target, 'u64')
    body.write(
      i64(FUNCTION_WINDOW),
      'i64.sub',
      i64(4n),
      'i64.rotr',
      tee(number),
      'i32.wrap_i64',
      call(this.writer.context.runtime('callable')),
      number,
      i64(32n),
      'i64.shr_u',
      'i64.eqz',
      'i32.and',
      'i32.eqz',
    )
    body.if()
    this.writer.fail('pointer', decoded)
    body.end()
    body.write(number, 'i32.wrap_i64')
    body.release('i64', number)
  }

  #callHost(name: string, layout: CallLayout, top: number, decoded: Decoded): void {
    const body = this.#body
    body.write(
      i32(this.writer.context.site(decoded).number),
      top,
      i32(layout.parameters[0]?.offset ?? 0),
      'i32.add',
      top,
      i32(layout.results[0]?.offset ?? 0),
      'i32.add',
      this.writer.frame,
      this.writer.thread,
      call(this.writer.context.runtime(name)),
    )
  }

  /**
   * Writes a call of a function that may stop: the thread goes on there, and the function's frame links back to this one. Pushes the state of the
   * thread.
   */
  callStopping(decoded: Decoded): void {
    this.writer.current = decoded
    const body = this.#body
    const { context, fn } = this.writer
    const layout = this.#layoutOf(decoded)
    const top = body.temporary('i32')
    this.#pushTop()
    body.set(top)
    // The frame must fit on the stack, with the room that is kept for calls of the run time.
    body.write(
      top,
      i32(layout.end),
      'i32.add',
      this.writer.frame,
      i32(context.program.threadBytes),
      'i32.add',
      'i32.gt_u',
    )
    body.if()
    this.writer.fail('overflow', decoded)
    body.end()
    this.#passParameters(decoded, layout, top)
    const back = [...fn.stopAt.values()].find(({ kind, at }) => kind === 'return' && at === decoded)
    if (back === undefined) throw new Error('A call has no way back')
    body.write(
      top,
      i32(back.id),
      memory('i32.store', 0),
      top,
      this.writer.stack,
      memory('i32.store', 4),
      this.writer.frame,
      top,
      memory('i32.store', FRAME.stack),
    )
    const callee = calleeOf(decoded)
    if (callee === undefined) {
      this.#pushFunctionNumber(decoded)
      body.call(context.runtime('enter'))
    } else {
      const target = context.program.functions.get(context.program.text.aliases.get(callee) ?? callee)
      const entry = target === undefined ? undefined : [...target.stopAt.values()].find(({ kind }) => kind === 'enter')
      if (entry === undefined) throw errorAt(`'${callee}' cannot be entered`, decoded)
      body.i32(entry.id)
    }
    body.release('i32', top)
  }

  alloca(decoded: Decoded): void {
    const body = this.#body
    const { stack, fn } = this.writer
    const { top } = fn.frame
    const given = decoded.operands['b']
    const alignment = given?.kind === 'integer' ? Math.max(16, Number(given.value)) : 16
    const begin = body.temporary('i32')
    body.write(
      stack,
      memory('i32.load', top),
      i32(alignment - 1),
      'i32.add',
      i32(-alignment),
      'i32.and',
      set(begin),
      stack,
      begin,
    )
    this.writer.push(operandOf(decoded, 'a'), 'u32')
    body.write(
      i32(15),
      'i32.add',
      i32(-16),
      'i32.and',
      'i32.add',
      memory('i32.store', top),
      stack,
      memory('i32.load', top),
      this.writer.frame,
      i32(this.writer.context.program.threadBytes),
      'i32.add',
      'i32.gt_u',
    )
    body.if()
    this.writer.fail('overflow', decoded)
    body.end()
    body.write(begin, this.writer.frame, 'i32.sub', 'i64.extend_i32_u')
    this.writer.pop(operandOf(decoded, 'd'), 'u64')
    body.release('i32', begin)
  }

  stackPointer(decoded: Decoded): void {
    const body = this.#body
    const { stack, fn, frame } = this.writer
    if (decoded.form.opcode === 'stacksave') {
      body.write(stack, memory('i32.load', fn.frame.top), frame, 'i32.sub', 'i64.extend_i32_u')
      this.writer.pop(operandOf(decoded, 'd'), 'u64')
      return
    }
    body.get(stack)
    this.writer.push(operandOf(decoded, 'a'), 'u32')
    body.write(frame, 'i32.add', memory('i32.store', fn.frame.top))
  }
}

/** The type with which a register is passed: a predicate takes a byte. */
function typeInMemory({ type }: Register): string {
  return bitsOf(type) === 1 ? 'b8' : type
}
