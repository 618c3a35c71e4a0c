/** Writes how a thread begins and goes on, how it stops and ends: which registers it saves, and what it leaves for others where it meets them. */
import { type Block, regionFrom } from './control-flow.js'
import { accessesOf, type Decoded, registersOf } from './decoding.js'
import type { EntryPlace, FunctionParts } from './function-parts.js'
import { EXITED, FRAME, LOCAL_WINDOW } from './layout.js'
import type { PreparedFunction, Stop } from './program.js'
import { type Operand, ptxError, type Register } from './syntax.js'
import { i32, type LocalType, memory, type Signature, set } from './wasm-encoder.js'

/** The parameters of a continuation before the registers: the block's cells, the frame, the thread, and the fuel that it has left. */
const REST_PARAMETERS: readonly LocalType[] = ['i32', 'i32', 'i32', 'i32']

/** The registers that an entry has to do with: the others that live at its start stay where they are saved. */
interface EntryRegisters {
  /** The registers that the entry reads or writes. */
  readonly used: ReadonlySet<number>
  /** The registers that are saved when the entry begins, and that it leaves as they are. */
  readonly kept: ReadonlySet<number>
}

const registersOfEntries = new WeakMap<PreparedFunction, Map<string, EntryRegisters>>()

function entryRegisters(fn: PreparedFunction, { block, isStart }: EntryPlace): EntryRegisters {
  const known = registersOfEntries.get(fn) ?? new Map<string, EntryRegisters>()
  registersOfEntries.set(fn, known)
  const key = `${block},${isStart}`
  let found = known.get(key)
  if (found === undefined) {
    found = findEntryRegisters(fn, { block, isStart })
    known.set(key, found)
  }
  return found
}

function findEntryRegisters({ fn, flow, live }: PreparedFunction, { block, isStart }: EntryPlace): EntryRegisters {
  const [used, written] = [new Set<number>(), new Set<number>()]
  const add = (decoded: Decoded): void => {
    const { reads, writes } = accessesOf(decoded)
    for (const { id } of [...reads, ...writes]) used.add(id)
    for (const { id } of writes) written.add(id)
  }
  for (const id of regionFrom(flow, block).order) {
    const each = flow.blocks[id]
    if (each === undefined) continue
    if (each.receives !== undefined) add(each.receives)
    for (const decoded of each.instructions) add(decoded)
    const { terminator } = each
    if (terminator.kind === 'branch') used.add(terminator.register.id)
    if (terminator.kind === 'switch' && terminator.index.kind === 'register') used.add(terminator.index.register.id)
    if ('at' in terminator) for (const { id } of accessesOf(terminator.at).reads) used.add(id)
  }
  const saved = live.at(block)
  // What a function returns is read where it ends, and is not looked for there.
  if (isStart || !fn.entry) return { used: new Set([...used, ...saved]), kept: new Set() }
  return { used, kept: new Set([...saved].filter((id) => !written.has(id))) }
}

/** The registers that a continuation takes: those that live at its block, but for those that stay saved. */
export function continued(fn: PreparedFunction, block: number, entry: EntryPlace): readonly number[] {
  const { used, kept } = entryRegisters(fn, entry)
  return [...fn.live.at(block)].filter((id) => used.has(id) || !kept.has(id))
}

/** The type of the function with the code from a block on, for one thread. */
export function continuationSignature(fn: PreparedFunction, block: number, entry: EntryPlace): Signature {
  const registers = continued(fn, block, entry).map((id) => fn.facts.types[id] ?? 'i32')
  return { parameters: [...REST_PARAMETERS, ...registers], results: ['i32'] }
}

export class StopWriter {
  constructor(private readonly parts: FunctionParts) {}

  // Beginning, and going on ----------------------------------------------------------------------------------------------

  /** Initialises the word of the frame that holds the end of the frame, in functions that use `alloca`. */
  initialTop(): void {
    const { values, fn } = this.parts
    if (!values.usesAlloca) return
    values.body.write(
      values.stack,
      values.stack,
      i32(fn.frame.byteLength),
      'i32.add',
      memory('i32.store', fn.frame.top),
    )
  }

  /** Loads the parameters that are registers from memory, in which all parameters are passed. */
  receiveParameters(): void {
    const { fn, instructions } = this.parts
    for (const { offset, variable } of fn.call.parameters) {
      const register = fn.fn.parameterRegisters.get(variable.name)
      if (register === undefined) continue
      instructions.calls.receiveParameter(register, offset)
    }
  }

  /** Takes the fuel and the registers that a continuation gets, as its parameters. */
  receiveContinued(block: number, entry: EntryPlace): void {
    const { fn, values, fuel } = this.parts
    values.body.write(REST_PARAMETERS.length - 1, set(fuel))
    for (const [index, id] of continued(fn, block, entry).entries()) {
      values.body.write(REST_PARAMETERS.length + index, set(values.localOfId(id)))
    }
  }

  /** Sets registers that are read before they are written to zero, for every thread. */
  clearUndefined(block: number): void {
    const { fn, values } = this.parts
    for (const id of fn.live.at(block)) {
      const type = values.typeOfId(id)
      if (type === 'i32') values.body.i32(0)
      else if (type === 'i64') values.body.i64(0n)
      else if (type === 'f32') values.body.f32(0)
      else values.body.f64(0n)
      values.body.set(values.localOfId(id))
    }
  }

  /** Loads the registers that the code from a block on needs, and that were saved where the thread stopped. */
  restore(block: number): void {
    const { fn, values } = this.parts
    for (const [id, offset] of this.savedAt(block)) {
      const register = fn.fn.registers[id]
      if (register === undefined) continue
      values.body.get(values.stack)
      this.#loadRegister(register, offset)
    }
  }

  /** The registers that the code from a block on needs, with their offsets in the frame. */
  savedAt(block: number): readonly (readonly [id: number, offset: number])[] {
    const { fn, entry } = this.parts
    return [...fn.live.at(block)].flatMap((id) => {
      const offset = fn.frame.saved.get(id)
      const isUsed = entry === undefined || entryRegisters(fn, entry).used.has(id)
      return offset === undefined || !isUsed ? [] : [[id, offset] as const]
    })
  }

  /** Takes what a meeting or a call has left for the thread, which goes on. */
  receive(decoded: Decoded): void {
    const { fn, values, lanes, instructions } = this.parts
    this.parts.mark(decoded)
    if (decoded.form.meaning.kind !== 'meeting') {
      const receive = (): void => instructions.calls.receiveResults(decoded)
      if (lanes === undefined) receive()
      else lanes.eachLane([], accessesOf(decoded).writes, receive)
      return
    }
    const stop = [...fn.stopAt.values()].find((each) => each.at === decoded && each.kind === 'meeting')
    for (const cell of stop?.cells?.results ?? []) {
      const { operand, offset } = cell
      if (offset === undefined || operand.kind !== 'register') continue
      const write = (): void => {
        values.body.get(values.frame)
        values.body.memory(cell.bytes === 8 ? 'i64.load' : 'i32.load', offset)
        values.popTo(operand.register, cell.bytes === 8 ? 'b64' : 'b32')
      }
      if (lanes === undefined) write()
      else if (!lanes.restoreCell(operand.register, offset, cell.bytes)) lanes.eachLane([], [operand.register], write)
    }
  }

  // Stopping, and ending -------------------------------------------------------------------------------------------------

  /** Writes the ends of a block that leave the region. */
  leave({ terminator, end }: Block): void {
    const { parts } = this
    const { values, instructions } = parts
    parts.mark(end)
    switch (terminator.kind) {
      case 'return':
        this.#return()
        return
      case 'exit':
        if (parts.role === 'direct') {
          // An `exit` in a function that was called directly would have to leave the whole block of threads, so it fails.
          values.fail('exit', parts.firstDecoded)
          return
        }
        values.body.write(i32(EXITED), set(parts.state))
        parts.branch('end')
        return
      case 'trap':
        values.fail('trap', terminator.at)
        return
      case 'meeting':
        this.#meet(terminator.at, terminator.next)
        return
      case 'call':
        instructions.calls.callStopping(terminator.at)
        values.body.set(parts.state)
        this.#stopAtBlock(terminator.next, terminator.at)
    }
  }

  /** Saves what lives at a stop, and ends the thread's part of the function there. */
  stopAt(stop: Stop): void {
    const { values, state } = this.parts
    this.#save(stop.block)
    values.body.i32(stop.id)
    values.body.set(state)
    this.parts.branch('end')
  }

  /** Stops where a callee has stopped, in its state. */
  #stopAtBlock(block: number, at: Decoded): void {
    const stop = this.parts.fn.stopAt.get(block)
    if (stop === undefined) throw ptxError('ERR_UNSUPPORTED', 'A thread cannot stop here', at.instruction)
    this.#save(stop.block)
    this.parts.branch('end')
  }

  #return(): void {
    const { parts } = this
    const { values, fn, state } = parts
    this.#leaveResults()
    if (parts.role === 'direct') {
      parts.branch('end')
      return
    }
    if (fn.fn.entry) {
      values.body.write(i32(EXITED), set(state))
    } else {
      // The link in the frame consists of the caller's state and the caller's frame.
      values.body.write(
        values.stack,
        memory('i32.load', 0),
        set(state),
        values.frame,
        values.stack,
        memory('i32.load', 4),
        memory('i32.store', FRAME.stack),
      )
    }
    parts.branch('end')
  }

  /** Stores the results that are registers to memory, in which all results are passed. */
  #leaveResults(): void {
    const { fn, instructions } = this.parts
    for (const { offset, variable } of fn.call.results) {
      const register = fn.fn.parameterRegisters.get(variable.name)
      if (register === undefined) continue
      instructions.calls.leaveResult(register, offset)
    }
  }

  #meet(decoded: Decoded, next: number): void {
    const { fn, values, lanes } = this.parts
    const stop = fn.stopAt.get(next)
    if (stop?.cells === undefined) throw new Error('A meeting has no stop')
    for (const cell of stop.cells.sources) {
      const { offset } = cell
      if (offset === undefined) continue
      const write = (): void => {
        values.body.get(values.frame)
        if (cell.operand.kind === 'register') values.push(cell.operand, cell.bytes === 8 ? 'b64' : 'b32')
        else if (cell.operand.kind === 'not') values.push(cell.operand, 'pred')
        else this.#pushAddress(cell.operand, decoded)
        values.body.memory(cell.bytes === 8 ? 'i64.store' : 'i32.store', offset)
      }
      const reads: Register[] = []
      registersOf(cell.operand, reads)
      if (lanes === undefined) write()
      else if (!lanes.saveCell(cell.operand, offset, cell.bytes)) lanes.eachLane(reads, [], write)
    }
    this.stopAt(stop)
  }

  #pushAddress(operand: Operand, decoded: Decoded): void {
    const { values } = this.parts
    values.push(operand, 'u64')
    if (operand.kind !== 'address') return
    const variable = operand.base.kind === 'symbol' ? values.variableOf(operand.base) : undefined
    // The compiler knows the address space of a name; the run time gets generic addresses unless the opcode says the space.
    if (variable?.space === 'local' && decoded.modifiers['space'] === undefined) {
      values.body.i64(LOCAL_WINDOW)
      values.body.op('i64.add')
    }
  }

  #save(block: number): void {
    const { fn, values, lanes, entry } = this.parts
    for (const id of fn.live.at(block)) {
      const register = fn.fn.registers[id]
      const offset = fn.frame.saved.get(id)
      if (entry !== undefined && entryRegisters(fn, entry).kept.has(id)) continue
      if (lanes !== undefined && offset !== undefined) lanes.save(id, offset)
      else if (register !== undefined && offset !== undefined) this.#storeRegister(register, values.stack, offset)
    }
  }

  /** Loads a register; the base of the address is on the stack. */
  #loadRegister(register: Register, offset: number): void {
    const { values } = this.parts
    const { body } = values
    if (register.type === 'b128') {
      const base = body.temporary('i32')
      body.tee(base)
      body.memory('i64.load', offset)
      body.set(values.localOfId(register.id))
      body.get(base)
      body.memory('i64.load', offset + 8)
      body.set(values.upperOf(register))
      body.release('i32', base)
      return
    }
    body.memory(`${values.typeOfId(register.id)}.load`, offset)
    body.set(values.localOfId(register.id))
  }

  #storeRegister(register: Register, base: number, offset: number): void {
    const { values } = this.parts
    const { body } = values
    body.get(base)
    body.get(values.localOfId(register.id))
    body.memory(`${values.typeOfId(register.id)}.store`, offset)
    if (register.type !== 'b128') return
    body.get(base)
    body.get(values.upperOf(register))
    body.memory('i64.store', offset + 8)
  }
}
