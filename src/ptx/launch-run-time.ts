/** What the code of a kernel calls while it runs: addresses that its windows do not find, checks of accesses, the clock, and the functions of the host. */

import { AsynchronousCopies } from './asynchronous-copies.js'
import { ClusterMemory, type SharedPlace } from './cluster-memory.js'
import { ClusterRaces, ordersBlocks } from './cluster-races.js'
import { type Decoded, describeInstruction } from './decoding.js'
import { type DeviceBlock, ENGINE_BEGIN, OutOfMachineMemory } from './device-memory.js'
import type { KernelFault } from './faults.js'
import type { GlobalRace, SiteFacts } from './global-races.js'
import type { KernelCode, RunTime } from './kernel-code.js'
import type { LaunchCounts } from './launch-counts.js'
import type { LaunchOptions } from './launch-options.js'
import type { LaunchReports } from './launch-reports.js'
import type { LaunchSpace } from './launch-space.js'
import { align, BOUNCE, FRAME, LAUNCH, LOCAL_WINDOW, PARAMETER_WINDOW, SHADOW, SHARED_WINDOW } from './layout.js'
import { formatPrintf, readString } from './printf.js'
import type { Resident } from './resident.js'
import { SharedRaces } from './shared-races.js'
import { TextureAccesses, type TextureHost } from './texture-accesses.js'
import { UnfinishedCopies } from './unfinished-copies.js'
import { FAILURES } from './value-writer.js'

interface Pending {
  readonly block: DeviceBlock
  readonly offset: number
  readonly bytes: number
}

/** The instruction on a texture that a thread of a launch carries out. There is one object for all, since they are many. */
class LaunchTextures implements TextureHost {
  at: Decoded | undefined
  frame = 0
  thread = 0

  constructor(
    private readonly runTime: LaunchRunTime,
    private readonly code: KernelCode,
    private readonly reports: LaunchReports,
  ) {}

  get view(): DataView {
    return this.code.memory.view
  }

  locate(address: number, bytes: number, access: number): number {
    return this.runTime.translate(address, bytes, access, this.frame, this.thread, this.at)
  }

  flush(): void {
    this.runTime.flush()
  }

  fault(kind: Parameters<TextureHost['fault']>[0], what: string): KernelFault {
    return this.reports.faultAt(kind, what, this.at, this.thread)
  }
}

export class LaunchRunTime implements RunTime {
  /** The instructions of the launch so far, from which the clock is computed. */
  instructions = 0
  #reads = 0
  #slept = 0
  #pending: Pending | undefined
  readonly #textures: TextureAccesses
  readonly #textureHost: LaunchTextures
  /** The block of the device in which the last address lies that was translated. */
  #resolved: DeviceBlock | undefined
  readonly unfinished: UnfinishedCopies
  readonly #copies: AsynchronousCopies
  readonly #cluster: ClusterMemory

  constructor(
    private readonly code: KernelCode,
    private readonly options: LaunchOptions,
    private readonly space: LaunchSpace,
    private readonly reports: LaunchReports,
    private readonly counts: LaunchCounts | undefined,
  ) {
    this.#textures = new TextureAccesses(options.textures)
    this.#textureHost = new LaunchTextures(this, code, reports)
    const { checked } = code.options
    const { needsWaits } = code.program
    this.unfinished = new UnfinishedCopies(code, reports, checked && needsWaits && options.report !== undefined)
    this.#copies = new AsynchronousCopies(code, reports, this, this.unfinished)
    this.#cluster = new ClusterMemory(space, reports)
  }

  texture(site: number, low: number, high: number, frame: number, thread: number): void {
    const at = this.code.sites[site]
    if (at === undefined) return
    this.#textureHost.at = at
    this.#textureHost.frame = frame
    this.#textureHost.thread = thread
    this.#textures.run(at, (low >>> 0) + (high >>> 0) * 2 ** 32, this.#textureHost)
  }

  // Memory --------------------------------------------------------------------------------------------------------------

  resolve(
    low: number,
    high: number,
    site: number,
    window: number,
    bytes: number,
    access: number,
    frame: number,
    thread: number,
  ): number {
    const address = (low >>> 0) + (high >>> 0) * 2 ** 32
    this.#resolved = undefined
    const found = this.translate(address, bytes, access, frame, thread, this.code.sites[site])
    if (window !== 0 && this.#resolved !== undefined) this.#moveWindow(window, this.#resolved, bytes)
    return found
  }

  translate(
    address: number,
    bytes: number,
    access: number,
    frame: number,
    thread: number,
    at: Decoded | undefined,
  ): number {
    if (address >= Number(SHARED_WINDOW) && address < Number(LOCAL_WINDOW)) {
      if (address % bytes === 0) return this.sharedRange(address, bytes, access, at, thread).location
      this.#cluster.place(address, bytes, access, at, thread)
    } else if (address >= Number(LOCAL_WINDOW)) {
      const found = this.#inWindow(address, bytes, frame)
      if (found === undefined) throw this.outside(address, bytes, access, at, thread)
      if (address % bytes === 0) return found
    }
    if (address % bytes !== 0) {
      const what = `${this.#participle(access)} ${bytes} bytes at ${hex(address)}, which is not a multiple of ${bytes}`
      throw this.reports.faultAt('CUDA_ERROR_MISALIGNED_ADDRESS', what, at, thread, address)
    }
    const block = this.code.memory.find(address)
    if (block === undefined || address + bytes > block.begin + block.byteLength) {
      throw this.outside(address, bytes, access, at, thread)
    }
    const offset = address - block.begin
    if (block.external !== undefined) {
      this.#pending = { block, offset, bytes }
      if (this.code.options.recorded) {
        block.marks ??= new Uint8Array(align(block.byteLength, 4))
        this.code.memory.marksTouched(block, offset, bytes)
        for (let index = offset; index < offset + bytes; index++)
          block.marks[index] = (block.marks[index] ?? 0) | access
      }
      this.globalAccess(block, address, bytes, access, thread, at)
      const { bytes: all } = this.code.memory
      all.set(block.external().subarray(offset, offset + bytes), BOUNCE)
      return BOUNCE
    }
    if (!this.code.memory.makeResident(block) || block.base === undefined) {
      throw new OutOfMachineMemory(`the block at ${hex(block.begin)} of ${block.byteLength} bytes`)
    }
    this.code.memory.updateTable()
    this.#resolved = block
    this.#noteInShadow(block, offset, bytes, access, at, thread)
    this.globalAccess(block, address, bytes, access, thread, at)
    return block.base + offset
  }

  /** Holds an access to a block of global memory against earlier ones, if races are looked for there. */
  globalAccess(
    block: DeviceBlock,
    address: number,
    bytes: number,
    access: number,
    thread: number,
    at: Decoded | undefined,
  ): void {
    if (this.#isLookedAt(block)) this.#global(address, bytes, access, thread, at, undefined)
  }

  /**
   * The place of bytes of shared memory, of the block itself or of another one of its cluster. The access is held against the races that are looked for.
   * @throws KernelFault for bytes that are in none
   */
  sharedRange(address: number, bytes: number, access: number, at: Decoded | undefined, thread: number): SharedPlace {
    const place = this.#cluster.place(address, bytes, access, at, thread)
    if (place === undefined) throw this.outside(address, bytes, access, at, thread)
    if (this.code.options.checked) this.#shared(at, place.offset, bytes, access, thread, place.owner)
    return place
  }

  /** The bytes at a generic address, which a thread reads for the run time, such as a tensor map among the parameters. */
  bytesAt(address: number, byteLength: number, at: Decoded, frame: number, thread: number): Uint8Array {
    const copy = new Uint8Array(byteLength)
    for (let from = 0; from < byteLength; from += 16) {
      const found = this.translate(address + from, 16, SHADOW.read, frame, thread, at)
      copy.set(this.code.memory.bytes.subarray(found, found + 16), from)
    }
    return copy
  }

  asynchronous(site: number, frame: number, thread: number): void {
    const at = this.code.sites[site]
    if (at !== undefined) this.#copies.run(at, frame, thread)
  }

  proxyFence(): void {
    this.unfinished.fence(this.reports.current)
  }

  missed(site: number, at: number, thread: number): void {
    this.reports.current?.missed.set(thread >> 5, { site, at, thread })
  }

  #inWindow(address: number, bytes: number, frame: number): number | undefined {
    const inside = (begin: bigint, length: number, base: number, least = 0): number | undefined => {
      const distance = address - Number(begin)
      return distance >= least && distance + bytes <= length ? base + distance : undefined
    }
    return (
      inside(LOCAL_WINDOW, this.code.program.threadBytes, frame, FRAME.cells) ??
      inside(PARAMETER_WINDOW, this.code.program.parameters.byteLength, this.space.cells + LAUNCH.parameters)
    )
  }

  #moveWindow(window: number, block: DeviceBlock, bytes: number): void {
    // A block of memory that is not aligned itself keeps its window closed: each access to it is looked up.
    if (block.begin % bytes !== 0) return
    const { view } = this.code.memory
    view.setBigUint64(window, BigInt(block.begin), true)
    view.setBigUint64(window + 8, BigInt(Math.floor(block.byteLength / bytes)), true)
    view.setInt32(window + 16, block.base ?? 0, true)
    view.setInt32(window + 20, block.shadow ?? 0, true)
    view.setInt32(window + 28, this.#isLookedAt(block) ? 1 : 0, true)
  }

  #noteInShadow(
    block: DeviceBlock,
    offset: number,
    bytes: number,
    access: number,
    at: Decoded | undefined,
    thread: number,
  ): void {
    const { shadow } = block
    if (shadow === undefined || !this.code.options.recorded) return
    const marks = access & SHADOW.written ? access | SHADOW.initialised : access
    const all = this.code.memory.bytes
    this.code.memory.shadowTouched(shadow + offset, bytes)
    let fresh = true
    for (let index = shadow + offset; index < shadow + offset + bytes; index++) {
      if (((all[index] ?? 0) & SHADOW.initialised) === 0) fresh = false
      all[index] = (all[index] ?? 0) | marks
    }
    if (!fresh && (access & SHADOW.read) !== 0) this.foundUninitialised(at, block.begin + offset, bytes, thread)
  }

  uninitialised(site: number, low: number, high: number, bytes: number, thread: number): void {
    this.foundUninitialised(this.code.sites[site], (low >>> 0) + (high >>> 0) * 2 ** 32, bytes, thread)
  }

  foundUninitialised(at: Decoded | undefined, address: number, bytes: number, thread: number): void {
    const message = `${bytes} bytes at ${hex(address)} are read, and nothing wrote them`
    this.reports.find('uninitialised-read', message, [thread], at, this.reports.current, '', { address, bytes })
  }

  #participle(access: number): string {
    return (access & SHADOW.written) === 0
      ? 'A load reads'
      : (access & SHADOW.atomic) !== 0
        ? 'An atomic changes'
        : 'A store writes'
  }

  outside(address: number, bytes: number, access: number, at: Decoded | undefined, thread: number): KernelFault {
    let near = ''
    if (address >= Number(SHARED_WINDOW) && address < Number(LOCAL_WINDOW)) {
      near = `: byte ${address - Number(SHARED_WINDOW)} of shared memory, of which the block has ${this.space.sharedBytes}`
    } else if (address >= Number(LOCAL_WINDOW) && address < Number(PARAMETER_WINDOW)) near = ', outside of local memory'
    else if (address < 4096) near = ', a null pointer'
    else {
      const { before, behind } = this.code.memory.around(address)
      if (before !== undefined) {
        const past = address - before.begin - before.byteLength
        const where = past < 0 ? `reaching ${bytes + past} bytes beyond` : `${past} bytes behind the end of`
        near = `, ${where} the block at ${hex(before.begin)} of ${before.byteLength} bytes`
      }
      const gap = behind === undefined ? Number.POSITIVE_INFINITY : behind.begin - address
      const past = before === undefined ? Number.POSITIVE_INFINITY : address - before.begin - before.byteLength
      if (behind !== undefined && gap < past) {
        near = `, ${gap} bytes before the block at ${hex(behind.begin)} of ${behind.byteLength} bytes`
      }
    }
    const what = `${this.#participle(access)} ${bytes} bytes at ${hex(address)}${near}`
    return this.reports.faultAt('CUDA_ERROR_ILLEGAL_ADDRESS', what, at, thread, address)
  }

  /** Copies what was written to the bounce cells to the memory that they stand for. */
  flush(): void {
    const pending = this.#pending
    if (pending === undefined) return
    this.#pending = undefined
    const { block, offset, bytes } = pending
    block.external?.().set(this.code.memory.bytes.subarray(BOUNCE, BOUNCE + bytes), offset)
  }

  shared(site: number, address: number, bytes: number, access: number, thread: number): void {
    this.#shared(this.code.sites[site], address, bytes, access, thread, this.reports.current)
  }

  #shared(
    at: Decoded | undefined,
    address: number,
    bytes: number,
    access: number,
    thread: number,
    resident: Resident | undefined,
  ): void {
    if (resident === undefined || this.options.report === undefined) return
    this.unfinished.check(resident, { address, bytes, access }, thread, at)
    this.settleWrite()
    resident.races ??= new SharedRaces(this.space.sharedBytes)
    // Reserved shared memory is not checked: CUDA's own headers use it, as it is meant to be used.
    if (address < this.space.ownSharedBytes) {
      resident.races.noteContents(address, bytes, isInitialisation(at) ? SHADOW.written : access, thread, at)
    }
    // A thread that waits at an mbarrier is ordered after all that arrived there. Which threads did is not followed, so it counts as a barrier of the
    // block.
    if (at?.form.opcode === 'mbarrier' && /_wait$/.test(at.modifiers['op'] ?? '')) {
      resident.races.barrier()
      this.unfinished.look(resident.shared + address, resident.cluster.blocks)
    }
    if (resident.cluster.blocks.length > 1) this.#inCluster(at, address, bytes, access, thread, resident)
    if (resident !== this.reports.current) return
    const race = resident.races.access(address, bytes, access, thread, at)
    if (race === undefined) return
    const { other, before, isOfWrites } = race
    const message = `Threads ${other} and ${thread} access byte ${address} of shared memory without a barrier between them${firstBy(before)}`
    const way = wayOut(other, thread, before === at)
    const report = (): void => this.reports.find('shared-memory-race', message, [other, thread], at, resident, way)
    if (isOfWrites) this.#reportIfChanged(resident.shared + address, bytes, report)
    else report()
  }

  /** Holds an access to the shared memory of a block against those of the other blocks of its cluster. */
  #inCluster(
    at: Decoded | undefined,
    address: number,
    bytes: number,
    access: number,
    thread: number,
    owner: Resident,
  ): void {
    const { current } = this.reports
    const meaning = at?.form.meaning
    if (current === undefined || (meaning?.kind === 'code' && meaning.code === 'asynchronous')) return
    const { cluster } = owner
    if (at !== undefined && ordersBlocks(at)) {
      cluster.orders++
      return
    }
    owner.clusterRaces ??= new ClusterRaces()
    const epoch = cluster.meetings + cluster.orders
    const race = owner.clusterRaces.access(address, bytes, access, current.rank, epoch, at)
    if (race === undefined) return
    const message = `The blocks with the ranks ${race.other} and ${current.rank} of a cluster access byte ${address} of the shared memory of rank ${owner.rank}, and nothing orders them${firstBy(race.before)}`
    const way = ': let the blocks meet at barrier.cluster, which is cluster.sync(), between'
    this.reports.find('shared-memory-race', message, [thread], at, current, way)
  }

  readonly #lookedAt = new Map<DeviceBlock, boolean>()

  /** Whether races are looked for in a block of memory: there are none where the launch cannot write. */
  #isLookedAt(block: DeviceBlock): boolean {
    if (this.space.globalRaces === undefined) return false
    const known = this.#lookedAt.get(block)
    if (known !== undefined) return known
    const { begin, byteLength } = block
    const isLookedAt = begin >= ENGINE_BEGIN || (this.options.mayWrite?.(begin, byteLength) ?? false)
    this.#lookedAt.set(block, isLookedAt)
    return isLookedAt
  }

  global(site: number, low: number, high: number, bytes: number, access: number, thread: number): void {
    const address = (low >>> 0) + (high >>> 0) * 2 ** 32
    const at = this.code.sites[site]
    this.#siteFacts[site] ??= this.space.globalRaces?.factsOf(at)
    this.#global(address, bytes, access, thread, at, this.#siteFacts[site])
  }

  /** The facts about each place in the code that accesses memory; indices are the places' numbers. */
  readonly #siteFacts: (SiteFacts | undefined)[] = []

  #global(
    address: number,
    bytes: number,
    access: number,
    thread: number,
    at: Decoded | undefined,
    facts: SiteFacts | undefined,
  ): void {
    const [order, races] = [this.reports.current?.order, this.space.globalRaces]
    if (order === undefined || races === undefined) return
    this.settleWrite()
    const race = races.access(order, thread >> 5, address, bytes, access, facts ?? races.factsOf(at))
    if (race !== undefined) this.#foundInGlobal(race, address, bytes, thread, at)
  }

  #foundInGlobal(race: GlobalRace, address: number, bytes: number, thread: number, at: Decoded | undefined): void {
    const resident = this.reports.current
    const { other, before, isOfWrites } = race
    const block = this.code.memory.find(address)
    const where = block === undefined ? '' : `, ${address - block.begin} bytes behind the start of its block`
    const earlier = this.reports.tripleOf(other.block).join()
    const pair =
      other.block === resident?.order?.number
        ? `Warps ${other.warp} and ${thread >> 5} of one block`
        : `Warp ${other.warp} of block (${earlier}) and warp ${thread >> 5} of another block`
    const message = `${pair} access ${bytes} bytes of global memory at ${hex(address)}${where}, and nothing orders them${firstBy(before)}`
    const report = (): void => this.reports.find('global-memory-race', message, [thread], at, resident)
    if (!isOfWrites) report()
    else if (block?.base !== undefined) this.#reportIfChanged(block.base + address - block.begin, bytes, report)
  }

  entered(segment: number, thread: number): void {
    if (this.reports.current !== undefined) this.counts?.entered(this.reports.current, segment, thread)
  }

  accessed(site: number, address: number, bytes: number, thread: number): void {
    if (this.reports.current !== undefined) this.counts?.accessed(this.reports.current, site, address, bytes, thread)
  }

  fence(): void {
    const { current } = this.reports
    if (current !== undefined) current.cluster.orders++
    const order = current?.order
    if (order !== undefined) this.space.globalRaces?.release(order)
  }

  /** A write under way that races with an earlier one. It is reported only if it changes the bytes. */
  #unsettled: { readonly at: number; readonly before: Uint8Array; readonly report: () => void } | undefined

  #reportIfChanged(at: number, bytes: number, report: () => void): void {
    this.#unsettled = { at, before: this.code.memory.bytes.slice(at, at + bytes), report }
  }

  /** Reports the race of the write before, unless it left the bytes as they were: threads that write the same values do no harm. */
  settleWrite(): void {
    const unsettled = this.#unsettled
    if (unsettled === undefined) return
    this.#unsettled = undefined
    const { at, before, report } = unsettled
    const { bytes } = this.code.memory
    if (before.some((byte, index) => byte !== bytes[at + index])) report()
  }

  fail(site: number, kind: number, thread: number): never {
    switch (FAILURES[kind]) {
      case 'trap':
        throw this.reports.fault('CUDA_ERROR_LAUNCH_FAILED', 'The kernel ended itself with trap', site, thread)
      case 'overflow':
        throw this.reports.fault('CUDA_ERROR_HARDWARE_STACK_ERROR', 'The stack of a thread is full', site, thread)
      case 'endless':
        throw this.reports.fault('CUDA_ERROR_LAUNCH_TIMEOUT', 'A loop in a function does not end', site, thread)
      case 'bytes':
        throw this.reports.fault(
          'CUDA_ERROR_LAUNCH_FAILED',
          'A phase of an mbarrier awaits fewer than 2^20 bytes',
          site,
          thread,
        )
      case 'pointer':
        throw this.reports.fault(
          'CUDA_ERROR_INVALID_PC',
          'A function is called through an address that is none',
          site,
          thread,
        )
      default:
        throw this.reports.fault(
          'CUDA_ERROR_ILLEGAL_INSTRUCTION',
          'A function that was called ends its thread',
          site,
          thread,
        )
    }
  }

  // Services ------------------------------------------------------------------------------------------------------------

  clock(which: number): number {
    this.#reads++
    const cycles = this.instructions + 64 * this.#reads + this.#slept * 1.75
    if (which === 0) return Math.floor(cycles)
    return Math.floor(this.options.now?.() ?? cycles / 1.75)
  }

  sleep(nanoseconds: number): void {
    this.#slept += nanoseconds
  }

  host(name: string, site: number, parameters: number, results: number, frame: number, thread: number): void {
    const { view } = this.code.memory
    const pointer = (index: number): number => Number(view.getBigUint64(parameters + 8 * index, true))
    const at = this.code.sites[site]
    const byte = (address: number): number => {
      const found = this.translate(address, 1, SHADOW.read, frame, thread, at)
      return this.code.memory.bytes[found] ?? 0
    }
    if (name === 'vprintf') {
      const list = pointer(1)
      const read = (offset: number, bytes: number): number =>
        this.translate(list + offset, bytes, SHADOW.read, frame, thread, at)
      const { text, count } = formatPrintf(readString(pointer(0), byte), {
        byte,
        int32: (offset) => this.code.memory.view.getInt32(read(offset, 4), true),
        int64: (offset) => this.code.memory.view.getBigInt64(read(offset, 8), true),
        double: (offset) => this.code.memory.view.getFloat64(read(offset, 8), true),
      })
      this.options.print?.(text)
      this.code.memory.view.setInt32(results, count, true)
    } else if (name === '__assertfail') {
      const [condition, file, fn] = [pointer(0), pointer(1), pointer(3)].map((each) => readString(each, byte))
      const line = view.getInt32(parameters + 16, true)
      const text = `${file}:${line}: ${fn}: Assertion \`${condition}\` failed.`
      const [x, y, z] = this.reports.ctaid(this.reports.current)
      const tid = this.reports.tid(thread).join()
      this.options.print?.(
        `${file}:${line}: ${fn}: block: [${x},${y},${z}], thread: [${tid}] Assertion \`${condition}\` failed.\n`,
      )
      throw this.reports.faultAt('CUDA_ERROR_ASSERT', text, at, thread)
    } else if (name === 'cudaGraphSetConditional') {
      this.options.setConditional?.(view.getBigUint64(parameters, true), view.getUint32(parameters + 8, true))
    } else if (name === 'malloc') {
      const size = pointer(0)
      view.setBigUint64(results, BigInt(this.#allocateForKernel(size)), true)
    } else if (name === 'free') this.#freeForKernel(pointer(0), at, thread)
  }

  static #heap = ENGINE_BEGIN + 2 ** 24

  #allocateForKernel(byteLength: number): number {
    if (byteLength === 0 || byteLength > 2 ** 30) return 0
    const begin = LaunchRunTime.#heap
    if (begin + byteLength > 2 ** 47) return 0
    LaunchRunTime.#heap += align(byteLength, 256) + 256
    this.code.memory.add(begin, byteLength)
    return begin
  }

  #freeForKernel(address: number, at: Decoded | undefined, thread: number): void {
    if (address === 0) return
    const block = this.code.memory.find(address)
    if (block === undefined || block.begin !== address || address < ENGINE_BEGIN) {
      const what = `free() of ${hex(address)}, which malloc() did not give`
      throw this.reports.faultAt('CUDA_ERROR_ILLEGAL_ADDRESS', what, at, thread, address)
    }
    this.code.memory.remove(address)
    this.code.memory.updateTable()
    this.code.renewWindows()
  }
}

/** The part of a message about a race that names the earlier of its two instructions, if that is known. */
function firstBy(before: Decoded | undefined): string {
  return before === undefined ? '' : `, first by ${describeInstruction(before.instruction)}`
}

/** What the program relies on where two threads race, and what would order them. */
function wayOut(other: number, thread: number, isOneInstruction: boolean): string {
  if (other >> 5 !== thread >> 5)
    return ': which of their warps comes first is open, so that no result is the right one: add __syncthreads()'
  if (isOneInstruction) return ': they are lanes of one warp, and which of them comes last is open'
  return ': lanes of one warp rely on going in step, which CUDA does not promise: add __syncwarp()'
}

/** Whether an instruction only writes its memory, although others with the same opcode also read theirs. */
function isInitialisation(at: Decoded | undefined): boolean {
  return at?.form.opcode === 'mbarrier' && at.modifiers['op'] === 'init'
}

function hex(address: number): string {
  return `0x${address.toString(16)}`
}
