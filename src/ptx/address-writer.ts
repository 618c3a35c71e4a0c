import { accessesOf, type Decoded, errorAt, operandOf } from './decoding.js'
import { LANES, type LaneShapes } from './lane-shapes.js'
import { BLOCK, BOUNCE_END, FRAME, LAUNCH, LOCAL_WINDOW, NO_WINDOW, SHADOW, SHARED_WINDOW } from './layout.js'
import type { RowRanges } from './row-ranges.js'
import { bitsOf, type Operand, type Variable } from './syntax.js'
import type { ValueWriter } from './value-writer.js'
import { call, EACH_BYTE, type FunctionBody, i32, i64, memory, memory128, set, tee } from './wasm-encoder.js'

/** Accesses of one block of code through the same register, which are checked together before the first of them. */
interface AccessGroup {
  readonly members: Decoded[]
  readonly space: 'global' | 'shared'
  readonly bytes: number
  least: bigint
  most: bigint
  /** The distance of the access of the last lane from that of the first, in code for several threads. */
  readonly reach: number
  /** The local with the location of the access at the least offset, or 0 if each access must be checked by itself. */
  local: number
}

/** The greatest distance of accesses that are checked together. */
const GROUP_REACH = 1n << 20n

type Space = 'generic' | 'global' | 'shared' | 'cluster' | 'local' | 'parameter' | 'frame'

export class AddressWriter {
  constructor(private readonly writer: ValueWriter) {}

  get #body(): FunctionBody {
    return this.writer.body
  }

  readonly #groups = new Map<Decoded, AccessGroup>()
  /** The accesses that were checked for all threads of the row. */
  ranges: RowRanges | undefined
  /** What lanes have in common, in code for several threads at once: then one check is for all of them. */
  lanes: LaneShapes | undefined
  /** Whether an access is checked by itself, for one lane after the other. */
  isAlone = false

  /**
   * Finds accesses of a block of code that can be checked together: they have the same register and the same width, and nothing in between changes
   * the register or frees memory.
   */
  groupAccesses(instructions: readonly Decoded[]): void {
    const { recorded, checked } = this.writer.context
    this.#groups.clear()
    // Accesses of shared memory are not recorded, so that those of lanes are checked together all the same.
    if (checked || (recorded && this.lanes === undefined)) return
    const open = new Map<string, AccessGroup>()
    for (const decoded of instructions) {
      const meaning = decoded.form.meaning
      const code = meaning.kind === 'code' ? meaning.code : ''
      if (code === 'call') open.clear()
      if (code === 'load' || code === 'store') this.#joinGroup(decoded, open)
      for (const { id } of accessesOf(decoded).writes) {
        for (const key of open.keys()) if (key.endsWith(`/${id}`)) open.delete(key)
      }
    }
    // Lanes are several accesses already.
    if (this.lanes !== undefined) return
    for (const [decoded, group] of this.#groups) if (group.members.length < 2) this.#groups.delete(decoded)
  }

  #joinGroup(decoded: Decoded, open: Map<string, AccessGroup>): void {
    const operand = decoded.operands['a']
    if (this.ranges?.of(decoded) !== undefined) return
    if (decoded.instruction.guard !== undefined || operand?.kind !== 'address' || operand.base.kind !== 'register')
      return
    const space = this.spaceOf(decoded, operand)
    if (space !== 'shared' && (space !== 'global' || this.writer.context.recorded)) return
    const { T: type = 'b32', vec = 'v1' } = decoded.modifiers
    const bytes = (Math.max(8, bitsOf(type)) / 8) * Number(vec.slice(1))
    const size = BigInt(bytes)
    const stride = this.lanes?.ofOperand(operand.base) ?? 0
    if (stride === 'lanes' || stride < 0 || stride % bytes !== 0) return
    const key = `${space}/${bytes}/${((operand.offset % size) + size) % size}/${operand.base.register.id}`
    const known = open.get(key)
    const least = known === undefined || operand.offset < known.least ? operand.offset : known.least
    const most = known === undefined || operand.offset > known.most ? operand.offset : known.most
    if (known !== undefined && most - least < GROUP_REACH) {
      known.members.push(decoded)
      known.least = least
      known.most = most
      this.#groups.set(decoded, known)
      return
    }
    const { offset } = operand
    const group: AccessGroup = {
      ...{ members: [decoded], space, bytes, least: offset, most: offset, local: -1 },
      reach: (LANES - 1) * stride,
    }
    open.set(key, group)
    this.#groups.set(decoded, group)
  }

  spaceOf(decoded: Decoded, address: Operand): Space {
    const space = decoded.modifiers['space'] ?? (decoded.form.pattern.startsWith('cp.') ? 'global' : 'generic')
    const variable = address.kind === 'address' ? this.writer.variableOf(address.base) : undefined
    if (space.startsWith('param')) {
      if (variable === undefined) return this.writer.fn.fn.entry ? 'parameter' : 'local'
      return this.writer.frameOffset(variable) === undefined ? 'parameter' : 'frame'
    }
    if (space === 'shared::cluster') return 'cluster'
    if (space.startsWith('shared')) return 'shared'
    if (space === 'local') return 'local'
    if (space === 'global' || space === 'const') return 'global'
    // The name of a variable in a generic access means the address space of the variable.
    if (variable?.space === 'shared') return 'shared'
    if (variable?.space === 'local') return 'local'
    return variable === undefined ? 'generic' : 'global'
  }

  /**
   * Computes the location of an access in WebAssembly's memory, after all checks.
   * @returns A local that has the location; the caller releases it
   */
  locate(operand: Operand, space: Space, bytes: number, access: number, decoded: Decoded): number {
    const body = this.#body
    const result = body.temporary('i32')
    if (operand.kind !== 'address') throw errorAt('Expected an address in brackets', decoded)
    const group = this.#groupOf(decoded)
    if (group !== undefined) {
      this.#enterGroup(group, operand, decoded)
      body.get(group.local)
      body.if('i32')
      this.#pushInGroup(group, operand)
      body.else()
      if (space === 'shared') this.#sharedAddress(operand, undefined, bytes, access, decoded)
      else {
        this.writer.push(operand, 'u64')
        this.#slowFromStack(bytes, access, decoded, NO_WINDOW)
      }
      body.end()
      body.set(result)
      this.#leaveGroup(group, decoded)
      return result
    }
    const variable = this.writer.variableOf(operand.base)
    if (space === 'frame' && variable !== undefined) {
      body.write(this.writer.stack, i32((this.writer.frameOffset(variable) ?? 0) + Number(operand.offset)), 'i32.add')
    } else if (space === 'parameter') this.#parameterAddress(operand, variable, bytes, decoded)
    else if (space === 'shared') this.#sharedAddress(operand, variable, bytes, access, decoded)
    else if (space === 'cluster') this.#clusterAddress(operand, bytes, access, decoded)
    else if (space === 'local') this.#localAddress(operand, variable, bytes, access, decoded)
    else this.#globalAddress(operand, bytes, access, decoded)
    body.set(result)
    return result
  }

  #groupOf(decoded: Decoded): AccessGroup | undefined {
    return this.isAlone ? undefined : this.#groups.get(decoded)
  }

  /** Writes the common check of a group before its first access. */
  #enterGroup(group: AccessGroup, operand: Extract<Operand, { kind: 'address' }>, decoded: Decoded): void {
    // The first of its accesses may be made by lanes one by one.
    if (group.local >= 0) return
    const { bytes, least, most, reach } = group
    group.local = this.#body.temporary('i32')
    this.#locateSpan({ ...operand, offset: least }, group.space, bytes, Number(most - least) + reach, decoded)
    this.#body.set(group.local)
  }

  /** Pushes the location of an access, or 0 unless it is aligned and lies in one block with the `span` bytes behind it. */
  #locateSpan(
    first: Extract<Operand, { kind: 'address' }>,
    space: 'global' | 'shared',
    bytes: number,
    span: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    if (space === 'shared') {
      const address = body.temporary('i32')
      const limit = this.writer.uniform(`shared/${bytes}/${span}`, 'i32', () => this.#sharedLimit(bytes, span))
      const shared = this.writer.blockCell('shared')
      this.#pushSharedOffset(first)
      body.write(
        tee(address),
        shared,
        'i32.add',
        i32(0),
        address,
        i32(Math.log2(bytes)),
        'i32.rotr',
        limit,
        'i32.lt_u',
        'select',
      )
      body.release('i32', address)
      return
    }
    const [address, distance] = [body.temporary('i64'), body.temporary('i64')]
    const window = this.#openWindow(first, bytes, decoded, address, distance)
    body.if('i32')
    body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 16), 'i32.add')
    body.else()
    body.write(address, i32(window), i32(bytes), i32(span), call(this.writer.context.runtime('lookup')))
    body.end()
    body.release('i64', distance)
    body.release('i64', address)
  }

  /** The local with the location of the least access of a group, or 0; undefined if the access is in no group. The caller leaves the group. */
  locateGroup(decoded: Decoded, operand: Extract<Operand, { kind: 'address' }>): number | undefined {
    const group = this.#groupOf(decoded)
    if (group === undefined) return undefined
    this.#enterGroup(group, operand, decoded)
    return group.local
  }

  offsetInGroup(decoded: Decoded, { offset }: Extract<Operand, { kind: 'address' }>): number {
    return Number(offset - (this.#groups.get(decoded)?.least ?? offset))
  }

  leaveGroup(decoded: Decoded): void {
    const group = this.#groups.get(decoded)
    if (group !== undefined) this.#leaveGroup(group, decoded)
  }

  /**
   * Pushes the location of the first lane's access, or 0 unless those of all lanes can be made beside it. They are recorded if they can; bytes that
   * are read but were not written cannot, as a finding names the thread that reads them.
   */
  locateBeside(
    operand: Extract<Operand, { kind: 'address' }>,
    isShared: boolean,
    bytes: number,
    access: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    this.#locateSpan(operand, isShared ? 'shared' : 'global', bytes, (LANES - 1) * bytes, decoded)
    if (isShared || !this.writer.context.recorded) return
    const [located, shadow, window] = [body.temporary('i32'), body.temporary('i32'), this.#windowOf(decoded)]
    const offsets = Array.from({ length: (LANES * bytes) / 16 }, (_, at) => 16 * at)
    const bits = access & SHADOW.written ? access | SHADOW.initialised : access
    /** Pushes whether all bytes have these marks. */
    const areAll = (wanted: number): void => {
      const each = EACH_BYTE * BigInt(wanted)
      const constant = this.writer.constant128(each, each)
      for (const offset of offsets)
        body.write(shadow, memory128('v128.load', offset), ...(offset > 0 ? ['v128.and'] : []))
      body.write(constant, 'v128.and', constant, 'i32x4.eq', 'i32x4.all_true')
    }
    body.set(located)
    body.get(located)
    body.if()
    body.write(located, i32(0), memory('i32.load', window + 16), 'i32.sub', i32(0), memory('i32.load', window + 20))
    body.write('i32.add', set(shadow))
    areAll(bits | SHADOW.initialised)
    body.op('i32.eqz')
    body.if()
    // Bytes that are written count as initialised from then on.
    if ((access & SHADOW.written) === 0) {
      areAll(SHADOW.initialised)
      body.if()
    }
    body.write(shadow, i32(LANES * bytes), i64(EACH_BYTE * BigInt(bits)), call(this.writer.context.runtime('mark')))
    if ((access & SHADOW.written) === 0) {
      body.else()
      body.write(i32(0), set(located))
      body.end()
    }
    body.end()
    body.end()
    body.get(located)
    body.release('i32', located)
    body.release('i32', shadow)
  }

  /**
   * The location of the window for an access. Code for lanes has windows of its own, as a window holds how much lies behind an access.
   */
  #windowOf(decoded: Decoded): number {
    const site = this.writer.context.site(decoded)
    return this.isAlone ? site.alone : this.lanes !== undefined ? site.lanes : site.window
  }

  #pushInGroup(group: AccessGroup, operand: Extract<Operand, { kind: 'address' }>): void {
    const body = this.#body
    body.get(group.local)
    if (operand.offset === group.least) return
    body.write(i32(Number(operand.offset - group.least)), 'i32.add')
  }

  #leaveGroup(group: AccessGroup, decoded: Decoded): void {
    if (group.members.at(-1) === decoded && group.local >= 0) this.#body.release('i32', group.local)
  }

  /** Pushes the number of accesses that fit into shared memory with `span` bytes behind the first. */
  #sharedLimit(bytes: number, span: number): void {
    const body = this.#body
    body.write(
      this.writer.block,
      memory('i32.load', BLOCK.sharedBytes),
      i32(span),
      'i32.sub',
      i32(0),
      this.writer.block,
      memory('i32.load', BLOCK.sharedBytes),
      i32(span),
      'i32.ge_u',
      'select',
      i32(Math.log2(bytes)),
      'i32.shr_u',
    )
  }

  #pushSharedOffset({ base, offset }: Extract<Operand, { kind: 'address' }>): void {
    this.writer.push(base, 'u32')
    if (offset === 0n) return
    this.#body.write(i32(Number(BigInt.asIntN(32, offset))), 'i32.add')
  }

  #parameterAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    variable: Variable | undefined,
    bytes: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const { parameters } = this.writer.context.program
    if (variable !== undefined) {
      const offset = (parameters.offsets.get(variable) ?? 0) + Number(operand.offset)
      if (offset < 0 || offset + bytes > parameters.byteLength)
        throw errorAt('This reads beyond the parameters of the kernel', decoded)
      body.write(this.writer.launch, i32(LAUNCH.parameters + offset), 'i32.add')
      return
    }
    const address = body.temporary('i64')
    this.writer.push(operand, 'u64')
    body.write(tee(address), i64(BigInt(Math.max(0, parameters.byteLength - bytes))), 'i64.gt_u')
    body.if()
    this.#slow(address, bytes, 0, decoded)
    body.op('drop')
    body.end()
    body.write(address, 'i32.wrap_i64', this.writer.launch, i32(LAUNCH.parameters), 'i32.add', 'i32.add')
    body.release('i64', address)
  }

  #sharedAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    variable: Variable | undefined,
    bytes: number,
    access: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const { program, checked } = this.writer.context
    const shared = this.writer.blockCell('shared')
    if (variable !== undefined && !checked) {
      const begin = program.shared.offsets.get(variable.name) ?? 0
      const offset = begin + Number(operand.offset)
      if (offset >= 0 && offset % bytes === 0 && offset + bytes <= program.shared.staticBytes) {
        body.write(shared, i32(offset), 'i32.add')
        return
      }
    }
    const address = body.temporary('i32')
    this.#pushSharedOffset(operand)
    body.set(address)
    const count = this.writer.uniform(`shared/${bytes}/0`, 'i32', () => this.#sharedLimit(bytes, 0))
    // An address that is not aligned becomes very large when it is rotated.
    body.write(address, i32(Math.log2(bytes)), 'i32.rotr', count, 'i32.ge_u')
    body.if()
    body.write(address, 'i64.extend_i32_u', i64(SHARED_WINDOW), 'i64.add')
    this.#slowFromStack(bytes, access, decoded)
    body.op('drop')
    body.end()
    if (checked) {
      body.write(
        i32(this.writer.context.site(decoded).number),
        address,
        i32(bytes),
        i32(access),
        this.writer.thread,
        call(this.writer.context.runtime('shared')),
      )
    }
    body.write(address, shared, 'i32.add')
    body.release('i32', address)
  }

  /** The location of an access to shared memory of the cluster. That of other blocks is found by the run time, and so is all under the checks. */
  #clusterAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    bytes: number,
    access: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const address = body.temporary('i32')
    this.#pushSharedOffset(operand)
    body.set(address)
    if (this.writer.context.checked) body.i32(0)
    else {
      const count = this.writer.uniform(`shared/${bytes}/0`, 'i32', () => this.#sharedLimit(bytes, 0))
      body.write(address, i32(Math.log2(bytes)), 'i32.rotr', count, 'i32.lt_u')
    }
    body.if('i32')
    body.write(address, this.writer.blockCell('shared'), 'i32.add')
    body.else()
    body.write(address, 'i64.extend_i32_u', i64(SHARED_WINDOW), 'i64.add')
    this.#slowFromStack(bytes, access, decoded)
    body.end()
    body.release('i32', address)
  }

  #localAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    variable: Variable | undefined,
    bytes: number,
    access: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const frame = variable === undefined ? undefined : this.writer.frameOffset(variable)
    if (frame !== undefined && variable !== undefined) {
      const offset = Number(operand.offset)
      if (offset >= 0 && offset + bytes <= variable.byteLength && offset % bytes === 0) {
        body.write(this.writer.stack, i32(frame + offset), 'i32.add')
        return
      }
    }
    const { threadBytes } = this.writer.context.program
    const address = body.temporary('i32')
    this.writer.push(operand.base, 'u32')
    if (operand.offset !== 0n) {
      body.write(i32(Number(BigInt.asIntN(32, operand.offset))), 'i32.add')
    }
    body.set(address)
    // The first bytes of a frame are the simulator's own; the program must not access them.
    body.write(
      address,
      i32(FRAME.cells),
      'i32.sub',
      i32(threadBytes - FRAME.cells - bytes),
      'i32.gt_u',
      address,
      i32(bytes - 1),
      'i32.and',
      'i32.or',
    )
    body.if()
    body.write(address, 'i64.extend_i32_u', i64(LOCAL_WINDOW), 'i64.add')
    this.#slowFromStack(bytes, access, decoded)
    body.op('drop')
    body.end()
    body.write(address, this.writer.frame, 'i32.add')
    body.release('i32', address)
  }

  /**
   * Writes the translation of a global address. The window of this place in the code says which block it used last. An address that lies in the block
   * and is aligned is found with one comparison: its distance from the start is rotated by the width of the access, so that one that is not aligned
   * becomes very large.
   */
  #globalAddress(
    operand: Extract<Operand, { kind: 'address' }>,
    bytes: number,
    access: number,
    decoded: Decoded,
  ): void {
    const body = this.#body
    const fixed = this.#fixedAddress(operand, bytes, decoded)
    if (fixed !== undefined) {
      body.i32(fixed)
      return
    }
    const { recorded } = this.writer.context
    const [address, distance] = [body.temporary('i64'), body.temporary('i64')]
    const window = this.#openWindow(operand, bytes, decoded, address, distance)
    body.if('i32')
    if (recorded) this.#recordAt(distance, window, bytes, access, decoded)
    body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 16), 'i32.add')
    body.else()
    this.#slow(address, bytes, access, decoded)
    body.end()
    body.release('i64', address)
    body.release('i64', distance)
  }

  /** The location in WebAssembly's memory of an access to a variable of the module; undefined if the access does not stay within the variable. */
  #fixedAddress(operand: Extract<Operand, { kind: 'address' }>, bytes: number, decoded: Decoded): number | undefined {
    const variable = this.writer.variableOf(operand.base)
    if (variable === undefined || this.writer.context.recorded) return undefined
    if (variable.space !== 'global' && variable.space !== 'const') return undefined
    const offset = Number(operand.offset) + (operand.base.kind === 'symbol' ? Number(operand.base.offset) : 0)
    if (offset < 0 || offset % bytes !== 0 || offset + bytes > variable.byteLength) return undefined
    const base = this.writer.context.residentAt(variable.name, decoded)
    return base === undefined ? undefined : base + offset
  }

  /** Computes an address and its distance from the start of the window, and pushes whether the window contains it. */
  #openWindow(
    operand: Extract<Operand, { kind: 'address' }>,
    bytes: number,
    decoded: Decoded,
    address: number,
    distance: number,
  ): number {
    const body = this.#body
    const window = this.#windowOf(decoded)
    this.writer.push(operand, 'u64')
    body.write(tee(address), i32(0), memory('i64.load', window), 'i64.sub', tee(distance))
    if (bytes > 1) {
      body.write(i64(BigInt(Math.log2(bytes))), 'i64.rotr')
    }
    body.write(i32(0), memory('i64.load', window + 8), 'i64.lt_u')
    return window
  }

  #recordAt(distance: number, window: number, bytes: number, access: number, decoded: Decoded): void {
    const body = this.#body
    if (this.writer.context.checked) {
      body.write(i32(0), memory('i32.load', window + 28))
      body.if()
      body.i32(this.writer.context.site(decoded).number)
      body.write(distance, i32(0), memory('i64.load', window), 'i64.add')
      this.#split()
      body.write(i32(bytes), i32(access), this.writer.thread, call(this.writer.context.runtime('global')))
      body.end()
    }
    const shadow = body.temporary('i32')
    body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 20), 'i32.add', set(shadow))
    this.#record(shadow, 0, bytes, access, decoded)
    body.release('i32', shadow)
  }

  /** Marks the bytes of an access in the shadow of its block; checks whether bytes that are read were written, unless that is known. */
  #record(shadow: number, offset: number, bytes: number, access: number, decoded: Decoded, isWritten = false): void {
    const body = this.#body
    const bits = access & SHADOW.written ? access | SHADOW.initialised : access
    const steps = bytes >= 8 ? bytes / 8 : 1
    const width = Math.min(bytes, 8)
    const [load, store, t] =
      width === 8
        ? ['i64.load', 'i64.store', 'i64' as const]
        : width === 4
          ? ['i32.load', 'i32.store', 'i32' as const]
          : width === 2
            ? ['i32.load16_u', 'i32.store16', 'i32' as const]
            : ['i32.load8_u', 'i32.store8', 'i32' as const]
    const spread = (value: number): void => {
      const all = Array.from({ length: width }, (_, at) => BigInt(value) << BigInt(8 * at)).reduce((a, b) => a | b)
      if (t === 'i64') body.i64(all)
      else body.i32(Number(BigInt.asIntN(32, all)))
    }
    const seen = body.temporary(t)
    for (let step = 0; step < steps; step++) {
      // The marks are written only if they change, since most bytes that are accessed again are marked already.
      body.write(shadow, memory(load, offset + 8 * step), tee(seen))
      spread(bits)
      body.op(`${t}.and`)
      spread(bits)
      body.op(`${t}.ne`)
      body.if()
      body.write(shadow, seen)
      spread(bits)
      body.write(`${t}.or`, memory(store, offset + 8 * step))
      body.write(shadow, i32(offset + 8 * step), 'i32.add', i32(width), call(this.writer.context.runtime('touch')))
      body.end()
      if (isWritten || (access & SHADOW.read) === 0) continue
      body.get(seen)
      spread(SHADOW.initialised)
      body.op(`${t}.and`)
      spread(SHADOW.initialised)
      body.op(`${t}.ne`)
      body.if()
      body.i32(this.writer.context.site(decoded).number)
      this.writer.push(operandOf(decoded, 'a'), 'u64')
      this.#split()
      body.write(i32(bytes), this.writer.thread, call(this.writer.context.runtime('uninitialised')))
      body.end()
    }
    body.release(t, seen)
  }

  /** Splits an i64 into its lower and its upper half. */
  #split(): void {
    const body = this.#body
    const value = body.temporary('i64')
    body.write(tee(value), 'i32.wrap_i64', value, i64(32n), 'i64.shr_u', 'i32.wrap_i64')
    body.release('i64', value)
  }

  /** Calls the run time to find an address. It moves the window to the block of the address, or ends the launch with a fault. */
  #slow(address: number, bytes: number, access: number, decoded: Decoded): void {
    this.#body.get(address)
    this.#slowFromStack(bytes, access, decoded)
  }

  #slowFromStack(bytes: number, access: number, decoded: Decoded, window?: number): void {
    const body = this.#body
    const site = this.writer.context.site(decoded)
    body.write(
      i32(site.number),
      i32(window ?? this.#windowOf(decoded)),
      i32(bytes),
      i32(access),
      this.writer.block,
      this.writer.frame,
      this.writer.thread,
      call(this.writer.context.runtime('find')),
    )
  }

  /** Copies the bytes of a write to memory outside WebAssembly, after the write. */
  flush(address: number, space: Space): void {
    if (space !== 'generic' && space !== 'global') return
    const body = this.#body
    body.write(address, i32(BOUNCE_END), 'i32.lt_u')
    body.if()
    body.call(this.writer.context.runtime('flush'))
    body.end()
  }

  /** Whether lanes may make an access of a range together: nothing is recorded for it, as the whole range has been marked. */
  isFreeInRange(decoded: Decoded): boolean {
    const range = this.ranges?.of(decoded)
    return range !== undefined && (range.shadow === undefined || (this.ranges?.isMarked === true && range.isWhole))
  }

  /** The distance of an access from the least one of its range; undefined unless it was checked for all threads of the row. */
  offsetInRange(decoded: Decoded): number | undefined {
    const range = this.ranges?.of(decoded)
    const address = decoded.operands['a']
    return range === undefined || address?.kind !== 'address' ? undefined : Number(address.offset - range.least)
  }

  /** @returns A local that has the location of the least access of the range; the caller releases it */
  locateInRange(decoded: Decoded, bytes: number, access: number): number {
    const address = this.#body.temporary('i32')
    const range = this.ranges?.of(decoded)
    if (range === undefined) throw new Error('This access lies in no range')
    if (range.shadow !== undefined && !(this.ranges?.isMarked && range.isWhole)) {
      const shadow = this.#body.temporary('i32')
      this.ranges?.pushShadow(range)
      this.#body.set(shadow)
      this.#record(shadow, this.offsetInRange(decoded) ?? 0, bytes, access, decoded, true)
      this.#body.release('i32', shadow)
    }
    this.ranges?.push(range)
    this.#body.set(address)
    return address
  }

  /**
   * Writes a store to global memory: directly if the window contains the address; elsewhere it may be memory outside, to which it has to be copied.
   */
  storeToGlobal(
    operand: Extract<Operand, { kind: 'address' }>,
    bytes: number,
    decoded: Decoded,
    write: (address: number) => void,
  ): void {
    const body = this.#body
    const [address, distance, to] = [body.temporary('i64'), body.temporary('i64'), body.temporary('i32')]
    const group = this.#groupOf(decoded)
    if (group !== undefined) {
      this.#enterGroup(group, operand, decoded)
      body.get(group.local)
      body.if()
      this.#pushInGroup(group, operand)
      body.set(to)
      write(to)
      body.else()
      this.writer.push(operand, 'u64')
      this.#slowFromStack(bytes, SHADOW.written, decoded, NO_WINDOW)
      body.set(to)
      write(to)
      this.flush(to, 'global')
      body.end()
      this.#leaveGroup(group, decoded)
      return
    }
    const window = this.#openWindow(operand, bytes, decoded, address, distance)
    body.if()
    if (this.writer.context.recorded) this.#recordAt(distance, window, bytes, SHADOW.written, decoded)
    body.write(distance, 'i32.wrap_i64', i32(0), memory('i32.load', window + 16), 'i32.add', set(to))
    write(to)
    body.else()
    this.#slow(address, bytes, SHADOW.written, decoded)
    body.set(to)
    write(to)
    this.flush(to, 'global')
    body.end()
    body.release('i32', to)
    body.release('i64', distance)
    body.release('i64', address)
  }
}
