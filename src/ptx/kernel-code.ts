/** Compiled code of one kernel for one machine: WebAssembly modules, made when they are needed first. */
import { keepPart, knownPart, NotedPlaces, type Places } from './compiled-parts.js'
import type { Decoded } from './decoding.js'
import { type DeviceMemory, LISTED, OutOfMachineMemory, PAGE_BITS } from './device-memory.js'
import { parseFormula } from './expression.js'
import { hardwareFma, softwareFma } from './forms.js'
import { FunctionWriter } from './function-writer.js'
import { HELPERS, signatureOf } from './helpers.js'
import type { LaneUse } from './lane-shapes.js'
import {
  BLOCK,
  FRAME,
  LAUNCH,
  LOCAL_WINDOW,
  MULTIPROCESSORS,
  PARAMETER_WINDOW,
  ROUTES,
  SHADOW,
  SHARED_WINDOW,
  SHUFFLED,
  TABLE_COUNT,
  TABLE_POINTER,
  TABLE_ROW,
  WINDOW_BYTES,
} from './layout.js'
import { NUMBERS } from './numbers.js'
import type { KernelProgram, PreparedFunction, Stop } from './program.js'
import { programOrder } from './program-order.js'
import { type Segment, segmentOf } from './segments.js'
import { type SourceTexts, sourceMapUrl } from './source-map.js'
import { continuationSignature } from './stop-writer.js'
import { DIRECT_SIGNATURE, ENTRY_SIGNATURE, type ModuleContext, writeHelper, writeLaneHelper } from './value-writer.js'
import {
  call,
  EACH_BYTE,
  FunctionBody,
  i32,
  i64,
  ModuleBuilder,
  memory,
  memory128,
  type Signature,
  set,
  tee,
} from './wasm-encoder.js'
import { compileWasm, instantiateWasm, isValidWasm, type WasmFunction, type WasmModule } from './web-assembly.js'

/** The functions that compiled code calls; bound to the launch that runs. */
export interface RunTime {
  fail(site: number, kind: number, thread: number): void
  /** Finds an address that the table of blocks does not have; returns the location to access. */
  resolve(
    low: number,
    high: number,
    site: number,
    window: number,
    bytes: number,
    access: number,
    frame: number,
    thread: number,
  ): number
  flush(): void
  clock(which: number): number
  sleep(nanoseconds: number): void
  shared(site: number, address: number, bytes: number, access: number, thread: number): void
  global(site: number, low: number, high: number, bytes: number, access: number, thread: number): void
  fence(): void
  /** Carries out a copy or another operation whose operands lie in memory (asynchronous-writer.ts). */
  asynchronous(site: number, frame: number, thread: number): void
  proxyFence(): void
  /** Notes that a thread waits in vain for the phase of the mbarrier at this location. */
  missed(site: number, at: number, thread: number): void
  entered(segment: number, thread: number): void
  accessed(site: number, address: number, bytes: number, thread: number): void
  uninitialised(site: number, low: number, high: number, bytes: number, thread: number): void
  /** Carries out an instruction on a texture or surface, whose operands and results lie in TEXTURE_CELLS. */
  texture(site: number, low: number, high: number, frame: number, thread: number): void
  host(name: string, site: number, parameters: number, results: number, frame: number, thread: number): void
}

export interface CodeOptions {
  readonly recorded: boolean
  readonly checked: boolean
  /** Whether threads run as lanes of SIMD: where that takes less time, wherever they can, or never. */
  readonly lanes: LaneUse
  /** Whether launches count what their warps do (launch-counts.ts). */
  readonly counted: boolean
  /** The texts in which inspectors step through the code, if it is made for that. */
  readonly sources: SourceTexts | undefined
}

export type Entry = (block: number, from: number, to: number) => number

const I = 'i32' as const

/** The functions of the run time that modules import. Every module imports all of them: their number does not matter. */
const IMPORTS: Readonly<Record<string, Signature>> = {
  fail: { parameters: [I, I, I], results: [] },
  resolve: { parameters: [I, I, I, I, I, I, I, I], results: [I] },
  flush: { parameters: [], results: [] },
  clock: { parameters: [I], results: ['f64'] },
  sleep: { parameters: [I], results: [] },
  shared: { parameters: [I, I, I, I, I], results: [] },
  global: { parameters: [I, I, I, I, I, I], results: [] },
  fence: { parameters: [], results: [] },
  asynchronous: { parameters: [I, I, I], results: [] },
  proxyFence: { parameters: [], results: [] },
  missed: { parameters: [I, I, I], results: [] },
  entered: { parameters: [I, I], results: [] },
  accessed: { parameters: [I, 'f64', I, I], results: [] },
  uninitialised: { parameters: [I, I, I, I, I], results: [] },
  pageTouched: { parameters: [I], results: [] },
  texture: { parameters: [I, I, I, I, I], results: [] },
  callable: { parameters: [I], results: [I] },
  enter: { parameters: [I], results: [I] },
  vprintf: { parameters: [I, I, I, I, I], results: [] },
  __assertfail: { parameters: [I, I, I, I, I], results: [] },
  cudaGraphSetConditional: { parameters: [I, I, I, I, I], results: [] },
  malloc: { parameters: [I, I, I, I, I], results: [] },
  free: { parameters: [I, I, I, I, I], results: [] },
}

/** The windows of an instruction: for its thread, for a row, for lanes together, and for lanes one by one. */
const WINDOWS = 4

let hardware: boolean | undefined

/** Whether the machine has a relaxed multiply-add whose result is fused. */
function hasHardwareFma(): boolean {
  hardware ??= detectFma()
  return hardware
}

function detectFma(): boolean {
  try {
    const module = new ModuleBuilder()
    const names = ['f32', 'f64'] as const
    for (const type of names) {
      const body = new FunctionBody([type, type, type])
      const shape = type === 'f32' ? 'f32x4' : 'f64x2'
      for (const parameter of [0, 1, 2]) {
        body.write(parameter, `${shape}.splat`)
      }
      body.write(`${shape}.relaxed_madd`, `${shape}.extract_lane_0`)
      module.define(module.declare({ parameters: [type, type, type], results: [type] }, type), body.encode())
    }
    const bytes = module.encode()
    if (!isValidWasm(bytes)) return false
    const { exports } = instantiateWasm(compileWasm(bytes), {})
    const [near32, near64] = [1 + 2 ** -12, 1 + 2 ** -27]
    return (
      exports['f32']?.(near32, near32, -1 - 2 ** -11) === 2 ** -24 &&
      exports['f64']?.(near64, near64, -1 - 2 ** -26) === 2 ** -54
    )
  } catch {
    return false
  }
}

let simd: boolean | undefined

/** Whether the run time has the instructions of SIMD. */
function hasLanes(): boolean {
  if (simd !== undefined) return simd
  const module = new ModuleBuilder()
  const body = new FunctionBody([I])
  body.write(0, 'i32x4.splat', 'i32x4.extract_lane_0')
  module.define(module.declare({ parameters: [I], results: [I] }, 'same'), body.encode())
  simd = isValidWasm(module.encode())
  return simd
}

/** The type of a helper for lanes: it has one if all of its values have the same width, and a formula. */
function laneSignatureOf(name: string): Signature | undefined {
  const helper = HELPERS[name]
  if (helper?.formula === undefined) return undefined
  const widths = new Set([...helper.parameters.map(({ type }) => type), helper.result].map((type) => type.slice(1)))
  if (widths.size > 1) return undefined
  return { parameters: helper.parameters.map(() => 'v128'), results: ['v128'] }
}

export class KernelCode {
  readonly sites: Decoded[] = []
  /** The parts of blocks of code, in code that counts. */
  readonly segments: Segment[] = []
  readonly #segmentOf = new Map<string, number>()
  readonly #orders = new Map<PreparedFunction, Int32Array>()
  readonly #siteOf = new Map<Decoded, number>()
  readonly #entries: (Entry | undefined)[] = []
  readonly #imports: Record<string, unknown>
  readonly #fma: boolean
  /** The location of the windows, four for each instruction of the program. */
  readonly windows: number
  readonly windowBytes: number
  #generation = 0
  /** The launch that runs at present. */
  runTime: RunTime | undefined
  /** The addresses of the module's variables that the code uses; keys are their names. */
  readonly variables = new Map<string, number>()
  /** Whether all blocks have to run on one core: they may need what others write, as the text says or as other cores have found. */
  runsAlone: boolean
  /** The milliseconds that the code has run on this thread so far, in launches for which that is measured. */
  computed = 0
  /** Whether threads run as lanes in some of the code that was compiled so far. */
  hasLanes = false

  /** @throws ERR_UNSUPPORTED, ERR_COMPILATION, and OutOfMachineMemory */
  constructor(
    readonly program: KernelProgram,
    readonly memory: DeviceMemory,
    readonly options: CodeOptions,
    private readonly find: (name: string, decoded: Decoded) => bigint,
  ) {
    this.#fma = hasHardwareFma()
    const { readsClock, communicates, copiesAsynchronously, allocates, waiting } = program
    this.runsAlone = readsClock || communicates || copiesAsynchronously || allocates || waiting.size > 0
    if (options.recorded) memory.record()
    let instructions = 1
    for (const fn of program.functions.values()) instructions += fn.instructions
    this.windowBytes = WINDOWS * instructions * WINDOW_BYTES
    const windows = memory.allocate(this.windowBytes)
    if (windows === undefined) throw new OutOfMachineMemory('the code of a kernel')
    this.windows = windows
    this.#imports = this.#bind()
    this.#compile(program.stops.filter(({ kind }) => kind !== 'turn'))
  }

  /** Frees the memory of the code. */
  close(): void {
    this.memory.release(this.windows)
    for (const at of [...this.#pending.map((each) => each.at), ...this.#latest.values()]) this.memory.release(at)
  }

  #bind(): Record<string, unknown> {
    const runTime = (): RunTime => {
      if (this.runTime === undefined) throw new Error('No launch runs')
      return this.runTime
    }
    const host =
      (name: string) =>
      (site: number, parameters: number, results: number, frame: number, thread: number): void =>
        runTime().host(name, site, parameters, results, frame, thread)
    const bound: Readonly<Record<string, unknown>> = {
      fail: (site: number, kind: number, thread: number) => runTime().fail(site, kind, thread),
      resolve: (
        low: number,
        high: number,
        site: number,
        window: number,
        bytes: number,
        access: number,
        frame: number,
        thread: number,
      ) => runTime().resolve(low, high, site, window, bytes, access, frame, thread),
      flush: () => runTime().flush(),
      clock: (which: number) => runTime().clock(which),
      sleep: (nanoseconds: number) => runTime().sleep(nanoseconds >>> 0),
      shared: (site: number, address: number, bytes: number, access: number, thread: number) =>
        runTime().shared(site, address, bytes, access, thread),
      global: (site: number, low: number, high: number, bytes: number, access: number, thread: number) =>
        runTime().global(site, low, high, bytes, access, thread),
      fence: () => runTime().fence(),
      asynchronous: (site: number, frame: number, thread: number) => runTime().asynchronous(site, frame, thread),
      proxyFence: () => runTime().proxyFence(),
      missed: (site: number, at: number, thread: number) => runTime().missed(site, at, thread),
      entered: (segment: number, thread: number) => runTime().entered(segment, thread),
      accessed: (site: number, address: number, bytes: number, thread: number) =>
        runTime().accessed(site, address, bytes, thread),
      uninitialised: (site: number, low: number, high: number, bytes: number, thread: number) =>
        runTime().uninitialised(site, low, high, bytes, thread),
      texture: (site: number, low: number, high: number, frame: number, thread: number) =>
        runTime().texture(site, low, high, frame, thread),
      pageTouched: (page: number) => this.memory.pageTouched(page),
      callable: (number: number) => (this.program.addressed.has(number) ? 1 : 0),
      enter: (number: number) => {
        const fn = this.program.addressed.get(number)
        return [...(fn?.stopAt.values() ?? [])].find(({ kind }) => kind === 'enter')?.id ?? 0
      },
      vprintf: host('vprintf'),
      __assertfail: host('__assertfail'),
      cudaGraphSetConditional: host('cudaGraphSetConditional'),
      malloc: host('malloc'),
      free: host('free'),
    }
    return { ...bound, ...NUMBERS, m: this.memory.memory }
  }

  /** Clears the windows if blocks of memory were added or removed, or if each launch looks for races in other blocks of memory. */
  renewWindows(): void {
    if (this.#generation === this.memory.generation && !this.options.checked) return
    this.#generation = this.memory.generation
    this.memory.bytes.fill(0, this.windows, this.windows + this.windowBytes)
  }

  /** The function that runs threads from a stop on. */
  entry(stop: number): Entry {
    const known = this.#entries[stop]
    if (known !== undefined) return known
    const { stops } = this.program
    const wanted = stops[stop]
    if (wanted === undefined) throw new Error(`There is no stop ${stop}`)
    this.#compile([wanted])
    const compiled = this.#entries[stop]
    if (compiled === undefined) throw new Error(`The stop ${stop} was not compiled`)
    return compiled
  }

  /**
   * Moves the values of a shuffle by the routes in memory, for whole warps: each lane's value lies at `value` in its frame, and goes to `result`;
   * whether it came from within the segment goes to `inside`. An offset of -1 means that this result is not stored.
   */
  shuffle(frames: number, warps: number, value: number, result: number, inside: number): void {
    this.#shuffle?.(frames, warps, value, result, inside)
  }

  #shuffle: WasmFunction | undefined

  /** Runs `count` blocks of a kernel that never stops one after the other, starting with the block in the cells, which then hold the next one. */
  blocks(cells: number, threads: number, count: number): void {
    this.#blocks?.(cells, threads, count)
  }

  #blocks: WasmFunction | undefined

  /** Sets the marks that rows of threads have left for later. */
  settle(): void {
    for (const { at, bits } of this.#pending) this.#settle?.(at, BigInt(bits) * EACH_BYTE)
    for (const at of this.#latest.values()) this.memory.bytes.fill(0, at, at + PENDING_BYTES)
  }

  #settle: WasmFunction | undefined
  readonly #pending: { readonly at: number; readonly bits: number }[] = []

  /** The locations of the latest marks; keys are the bits of the marks. */
  readonly #latest = new Map<number, number>()

  /** Marks that were allocated for a part which was then not taken. */
  #spare: { readonly waiting: number; readonly latest: number; readonly bits: number }[] = []

  #newPending(bits: number): { readonly waiting: number; readonly latest: number } {
    const spare = this.#spare.findIndex((each) => each.bits === bits)
    const [found] = spare < 0 ? [] : this.#spare.splice(spare, 1)
    if (found !== undefined) return found
    const waiting = this.#zeros()
    const latest = this.#latest.get(bits) ?? this.#zeros()
    this.#pending.push({ at: waiting, bits })
    this.#latest.set(bits, latest)
    return { waiting, latest }
  }

  #zeros(): number {
    const at = this.memory.allocate(PENDING_BYTES)
    if (at === undefined) throw new OutOfMachineMemory('the code of a kernel')
    this.memory.bytes.fill(0, at, at + PENDING_BYTES)
    return at
  }

  #addressOf(name: string, decoded: Decoded): bigint {
    const address = this.find(name, decoded)
    this.variables.set(name, Number(address))
    return address
  }

  #site(decoded: Decoded): ReturnType<ModuleContext['site']> {
    let number = this.#siteOf.get(decoded)
    if (number === undefined) {
      number = this.sites.push(decoded) - 1
      this.#siteOf.set(decoded, number)
    }
    const window = this.windows + WINDOWS * number * WINDOW_BYTES
    const [range, lanes, alone] = [1, 2, 3].map((each) => window + each * WINDOW_BYTES)
    if (range === undefined || lanes === undefined || alone === undefined) throw new Error('A site has four windows')
    return { number, window, range, lanes, alone }
  }

  #segment(fn: PreparedFunction, block: number, part: number): number {
    const key = `${fn.index},${block},${part}`
    const known = this.#segmentOf.get(key)
    if (known !== undefined) return known
    const order = this.#orders.get(fn) ?? programOrder(fn.flow)
    this.#orders.set(fn, order)
    const number = this.segments.push(segmentOf(fn, block, part, order)) - 1
    this.#segmentOf.set(key, number)
    return number
  }

  /** The places of the machine that are built into code. */
  readonly #places: Places = {
    addressOf: (name, decoded) => this.#addressOf(name, decoded),
    residentAt: (name, decoded) => {
      const block = this.memory.find(Number(this.#addressOf(name, decoded)))
      return block !== undefined && this.memory.makeResident(block) ? block.base : undefined
    },
    site: (decoded) => this.#site(decoded),
    pendingMarks: (bits) => this.#newPending(bits),
    touchedTable: () => this.memory.touchedTable,
    rangeList: () => this.memory.rangeList,
    tellLanes: () => {
      this.hasLanes = true
    },
  }

  #compile(stops: readonly Stop[]): void {
    const { recorded, checked, lanes } = this.options
    const first = this.#shuffle === undefined
    const places = [this.windows, this.memory.maximumPages]
    const key = [recorded, checked, lanes, first, ...places, ...stops.map(({ id }) => id)].join()
    const { exports } = instantiateWasm(this.#known(key) ?? this.#written(key, stops, first), this.#imports)
    if (first) this.#shuffle = exports['shuffle']
    if (first) this.#blocks = exports['blocks']
    this.#settle ??= exports['settle']
    for (const { id } of stops) {
      const compiled = exports[`e${id}`]
      if (compiled !== undefined) this.#entries[id] = asEntry(compiled)
    }
  }

  /** The module as it was compiled for another machine with the same places. */
  #known(key: string): WasmModule | undefined {
    if (this.options.sources !== undefined || this.options.counted) return undefined
    const pending: { readonly waiting: number; readonly latest: number; readonly bits: number }[] = []
    const pendingMarks: Places['pendingMarks'] = (bits) => {
      const marks = this.#newPending(bits)
      pending.push({ ...marks, bits })
      return marks
    }
    const module = knownPart(this.program, key, { ...this.#places, pendingMarks })
    if (module === undefined) this.#spare.push(...pending)
    return module
  }

  #written(key: string, stops: readonly Stop[], first: boolean): WasmModule {
    const places = new NotedPlaces(this.#places)
    const module = new ModuleBuilder(this.memory.maximumPages)
    const indices = new Map<string, number>()
    for (const [name, signature] of Object.entries(IMPORTS)) indices.set(name, module.import(name, signature))
    for (const [name, helper] of Object.entries(HELPERS)) {
      if (helper.formula === undefined) indices.set(`$${name}`, module.import(name, signatureOf(helper)))
    }
    /** The bodies of functions that are still to be written, with the functions' indices. */
    const queue: { readonly index: number; readonly write: () => Uint8Array }[] = []
    const once = (key: string, signature: Signature, write: (index: number) => Uint8Array): number => {
      const known = indices.get(key)
      if (known !== undefined) return known
      const index = module.declare(signature)
      indices.set(key, index)
      queue.push({ index, write: () => write(index) })
      return index
    }
    const { program, options } = this
    const { sources } = options
    /** Writes a function, and describes it where inspectors are to show it. */
    const written = (index: number, writer: FunctionWriter): Uint8Array => {
      const body = writer.write()
      if (sources !== undefined) module.describe(index, writer.describe())
      return body
    }
    const context: ModuleContext = {
      program,
      hardwareFma: this.#fma,
      recorded: options.recorded,
      checked: options.checked,
      helper: (name) => {
        const helper = HELPERS[name]
        if (helper === undefined) throw new Error(`There is no helper '${name}'`)
        const signature = signatureOf(helper)
        return { index: once(`$${name}`, signature, () => writeHelper(name, context)), signature }
      },
      laneHelper: (name) => {
        const signature = laneSignatureOf(name)
        if (signature === undefined) return undefined
        return once(`$${name} of lanes`, signature, () => writeLaneHelper(name, context))
      },
      tellLanes: () => places.tellLanes(),
      lanes: hasLanes() && sources === undefined && !options.counted ? options.lanes : 'never',
      isStepped: sources !== undefined,
      isCounted: options.counted,
      segment: (fn, block, part) => this.#segment(fn, block, part),
      continuation: (fn, block, entry) =>
        once(
          `rest ${fn.fn.name} ${block} ${entry.block},${entry.isStart}`,
          continuationSignature(fn, block, entry),
          () => new FunctionWriter(context, fn, undefined, { block, entry }).write(),
        ),
      formula: (text) => parseFormula(this.#fma ? hardwareFma(text) : softwareFma(text)),
      runtime: (name) => {
        if (name === 'find') return once(name, FIND_SIGNATURE, () => writeFind(context, indices.get('resolve') ?? 0))
        if (name === 'search') return once(name, SEARCH_SIGNATURE, writeSearch)
        if (name === 'lookup') return once(name, LOOKUP_SIGNATURE, () => writeLookup(context))
        if (name === 'initialised') return once(name, INITIALISED_SIGNATURE, writeInitialised)
        if (name === 'note')
          return once(name, NOTE_SIGNATURE, () => writeNote(context.runtime('mark'), context.runtime('keep')))
        if (name === 'keep') {
          const write = (): Uint8Array => writeKeep(context.runtime('mark'), places.rangeList())
          return once(name, MARK_SIGNATURE, write)
        }
        if (name === 'mark') return once(name, MARK_SIGNATURE, () => writeMark(context.runtime('touch')))
        if (name === 'touch') {
          const write = (): Uint8Array => writeTouch(context.runtime('pageTouched'), places.touchedTable())
          return once(name, TOUCH_SIGNATURE, write)
        }
        if (name === 'cover') return once(name, COVER_SIGNATURE, () => writeCover(context))
        if (name === 'phase') return once(name, PHASE_SIGNATURE, writePhase)
        const index = indices.get(name)
        if (index === undefined) throw new Error(`There is no function '${name}' of the run time`)
        return index
      },
      direct: (fn: PreparedFunction) =>
        once(`direct ${fn.fn.name}`, DIRECT_SIGNATURE, (index) =>
          written(index, new FunctionWriter(context, fn, undefined)),
        ),
      directType: () => module.type(DIRECT_SIGNATURE),
      addressOf: (name, decoded) => places.addressOf(name, decoded),
      residentAt: (name, decoded) => places.residentAt(name, decoded),
      site: (decoded) => places.site(decoded),
      pendingMarks: (bits) => places.pendingMarks(bits),
    }
    for (const stop of stops) {
      const index = module.declare(ENTRY_SIGNATURE, `e${stop.id}`)
      if (!program.stopsThreads) {
        queue.push({ index: module.declare(BLOCKS_SIGNATURE, 'blocks'), write: () => writeBlocks(index, program) })
      }
      queue.push({ index, write: () => written(index, new FunctionWriter(context, stop.fn, stop)) })
    }
    if (first)
      queue.push({
        index: module.declare(SHUFFLE_SIGNATURE, 'shuffle'),
        write: () => writeShuffle(program.threadBytes),
      })
    const table: (number | undefined)[] = []
    for (const [number, fn] of program.addressed) if (!fn.stops) table[number] = context.direct(fn)
    for (let each = queue.pop(); each !== undefined; each = queue.pop()) module.define(each.index, each.write())
    if (program.addressed.size > 0) module.table(Array.from(table))
    else module.table([undefined])
    if (indices.has('keep')) {
      const keep = context.runtime('keep')
      module.define(module.declare(SETTLE_SIGNATURE, 'settle'), writeSettle(keep))
    }
    if (sources !== undefined) return compileWasm(module.encode((marks) => sourceMapUrl(marks, sources)))
    const compiled = compileWasm(module.encode())
    if (options.counted) return compiled
    keepPart(program, key, compiled, places)
    return compiled
  }
}

function asEntry(compiled: WasmFunction): Entry {
  return compiled as (...args: number[]) => number
}

const FIND_SIGNATURE: Signature = { parameters: ['i64', I, I, I, I, I, I, I], results: [I] }

/**
 * Writes find(address, site, window, bytes, access, block, frame, thread), which returns the location of an address that the window of its place does
 * not contain. A block of the table becomes the window; the windows of shared and local memory do not, since they are other memory for each thread.
 */
function writeFind(context: ModuleContext, resolve: number): Uint8Array {
  const body = new FunctionBody(FIND_SIGNATURE.parameters)
  const [address, site, window, bytes, access, block, frame, thread] = [0, 1, 2, 3, 4, 5, 6, 7]
  const distance = body.local('i64')
  const found = body.local(I)
  const { program } = context
  /** Returns base + distance if `distance` is aligned and lies in a window of the given length. */
  const within = (begin: bigint, length: () => void, base: () => void, least: number): void => {
    body.write(address, i64(begin), 'i64.sub', tee(distance), i64(BigInt(least)), 'i64.sub')
    length()
    body.write(bytes, i32(least), 'i32.add', 'i32.sub', 'i64.extend_i32_s', 'i64.le_u')
    length()
    body.write(
      bytes,
      i32(least),
      'i32.add',
      'i32.ge_s',
      'i32.and',
      distance,
      'i32.wrap_i64',
      bytes,
      i32(1),
      'i32.sub',
      'i32.and',
      'i32.eqz',
      'i32.and',
    )
    body.if()
    base()
    body.write(distance, 'i32.wrap_i64', 'i32.add', 'return')
    body.end()
  }
  body.write(address, i64(SHARED_WINDOW), 'i64.ge_u')
  body.if()
  if (!context.checked) {
    const cell = (offset: number) => (): void => {
      body.write(block, memory('i32.load', offset))
    }
    within(SHARED_WINDOW, cell(BLOCK.sharedBytes), cell(BLOCK.shared), 0)
  }
  within(
    LOCAL_WINDOW,
    () => body.i32(program.threadBytes),
    () => body.get(frame),
    FRAME.cells,
  )
  within(
    PARAMETER_WINDOW,
    () => body.i32(program.parameters.byteLength),
    () => {
      body.write(block, memory('i32.load', BLOCK.launch), i32(LAUNCH.parameters), 'i32.add')
    },
    0,
  )
  body.else()
  if (!context.recorded) {
    body.write(address, window, bytes, i32(0), call(context.runtime('lookup')), tee(found))
    body.if()
    body.write(found, 'return')
    body.end()
  }
  body.end()
  body.write(address, 'i32.wrap_i64', address, i64(32n), 'i64.shr_u', 'i32.wrap_i64')
  for (const each of [site, window, bytes, access, frame, thread]) body.get(each)
  body.call(resolve)
  return body.encode()
}

const SEARCH_SIGNATURE: Signature = { parameters: ['i64'], results: [I] }

/** Writes search(address), which returns the row of the last block that begins at the address or before, or 0. */
function writeSearch(): Uint8Array {
  const body = new FunctionBody(SEARCH_SIGNATURE.parameters)
  const address = 0
  const [low, high, middle] = [body.local(I), body.local(I), body.local(I)]
  const rowAt = (index: number): void => {
    body.write(index, i32(TABLE_ROW), 'i32.mul', i32(0), memory('i32.load', TABLE_POINTER), 'i32.add')
  }
  body.write(i32(0), memory('i32.load', TABLE_COUNT), set(high))
  body.block()
  body.loop()
  body.write(low, high, 'i32.ge_u')
  body.brIf(1)
  body.write(low, high, 'i32.add', i32(1), 'i32.shr_u', set(middle))
  rowAt(middle)
  body.write(memory('i64.load'), address, 'i64.le_u')
  body.if()
  body.write(middle, i32(1), 'i32.add', set(low))
  body.else()
  body.write(middle, set(high))
  body.end()
  body.br(0)
  body.end()
  body.end()
  body.write(low, 'i32.eqz')
  body.if()
  body.write(i32(0), 'return')
  body.end()
  body.write(low, i32(1), 'i32.sub', set(low))
  rowAt(low)
  return body.encode()
}

/** Writes the shadow of a row's block to a window; returns 0 if it has none: a shadow is made when its block is looked up by itself. */
function takeShadow(body: FunctionBody, window: number, row: number): void {
  body.write(row, memory('i32.load', 20), 'i32.eqz')
  body.if()
  body.write(i32(0), 'return')
  body.end()
  body.write(window, row, memory('i64.load', 20), memory('i64.store', 20))
}

const COVER_SIGNATURE: Signature = { parameters: ['i64', I, I], results: [I] }

/**
 * Writes cover(address, bytes, window), which returns whether one block of the table contains so many bytes from the address on; it becomes the
 * window.
 */
function writeCover(context: ModuleContext): Uint8Array {
  const body = new FunctionBody(COVER_SIGNATURE.parameters)
  const [address, bytes, window, row] = [0, 1, 2, body.local(I)]
  body.write(address, call(context.runtime('search')), tee(row), 'i32.eqz')
  body.if()
  body.write(i32(0), 'return')
  body.end()
  body.write(address, row, memory('i64.load'), 'i64.sub', bytes, 'i64.extend_i32_u', 'i64.add')
  body.write(row, memory('i64.load', 8), 'i64.gt_u')
  body.if()
  body.write(i32(0), 'return')
  body.end()
  if (context.recorded) takeShadow(body, window, row)
  body.write(window, row, memory('i64.load'), memory('i64.store'))
  body.write(window, row, memory('i64.load', 8), memory('i64.store', 8))
  body.write(window, row, memory('i32.load', 16), memory('i32.store', 16))
  body.i32(1)
  return body.encode()
}

const INITIALISED_SIGNATURE: Signature = { parameters: [I, I], results: [I] }

/** Writes initialised(shadow, bytes), which returns whether so many bytes from the given one on have all been written. */
function writeInitialised(): Uint8Array {
  const body = new FunctionBody(INITIALISED_SIGNATURE.parameters)
  const [at, bytes] = [0, 1]
  const all = EACH_BYTE * BigInt(SHADOW.initialised)
  /** Writes a loop that goes on as long as `width` bytes are left and all of them have been written. */
  const each = (width: number, load: () => void): void => {
    body.block()
    body.loop()
    body.write(bytes, i32(width), 'i32.lt_u')
    body.brIf(1)
    load()
    body.if()
    body.write(i32(0), 'return')
    body.end()
    body.write(at, i32(width), 'i32.add', set(at), bytes, i32(width), 'i32.sub', set(bytes))
    body.br(0)
    body.end()
    body.end()
  }
  each(8, () => body.write(at, memory('i64.load'), i64(all), 'i64.and', i64(all), 'i64.ne'))
  each(1, () => body.write(at, memory('i32.load8_u'), i32(SHADOW.initialised), 'i32.and', 'i32.eqz'))
  body.i32(1)
  return body.encode()
}

const TOUCH_SIGNATURE: Signature = { parameters: [I, I], results: [] }

/** Writes touch(shadow, bytes), which notes the pages of these bytes of a shadow as marked, unless they are noted already. */
function writeTouch(pageTouched: number, table: number): Uint8Array {
  const body = new FunctionBody(TOUCH_SIGNATURE.parameters)
  const [at, bytes, last] = [0, 1, body.local(I)]
  body.write(bytes, 'i32.eqz')
  body.if()
  body.op('return')
  body.end()
  body.write(at, bytes, 'i32.add', i32(1), 'i32.sub', i32(PAGE_BITS), 'i32.shr_u', set(last))
  body.write(at, i32(PAGE_BITS), 'i32.shr_u', set(at))
  body.loop()
  body.write(at, memory('i32.load8_u', table), 'i32.eqz')
  body.if()
  body.write(at, call(pageTouched))
  body.end()
  body.write(at, i32(1), 'i32.add', tee(at), last, 'i32.le_u')
  body.brIf(0)
  body.end()
  return body.encode()
}

const MARK_SIGNATURE: Signature = { parameters: [I, I, 'i64'], results: [] }

/** Writes mark(shadow, bytes, bits), which sets these bits in so many bytes; most of them have been set before. */
function writeMark(touch: number): Uint8Array {
  const body = new FunctionBody(MARK_SIGNATURE.parameters)
  const [at, bytes, bits] = [0, 1, 2]
  body.write(at, bytes, call(touch))
  /** Writes a loop that goes on as long as `width` bytes are left, in words of 8 bytes or 1. */
  const each = (width: number, word: number): void => {
    const [load, store] = word === 8 ? ['i64.load', 'i64.store'] : ['i64.load8_u', 'i64.store8']
    const words = Array.from({ length: width / word }, (_, index) => word * index)
    body.block()
    body.loop()
    body.write(bytes, i32(width), 'i32.lt_u')
    body.brIf(1)
    for (const offset of words) body.write(at, memory(load ?? '', offset), ...(offset > 0 ? ['i64.and'] : []))
    body.write(bits)
    if (word === 1) body.write(i64(255n), 'i64.and', 'i64.and', bits, i64(255n), 'i64.and', 'i64.ne')
    else body.write('i64.and', bits, 'i64.ne')
    body.if()
    for (const offset of words)
      body.write(at, at, memory(load ?? '', offset), bits, 'i64.or', memory(store ?? '', offset))
    body.end()
    body.write(at, i32(width), 'i32.add', set(at), bytes, i32(width), 'i32.sub', set(bytes))
    body.br(0)
    body.end()
    body.end()
  }
  if (hasLanes()) {
    // Most bytes have their marks, which is seen sixteen at a time.
    const all = body.local('v128')
    const offsets = [0, 16, 32, 48]
    body.write(bits, 'i64x2.splat', set(all))
    body.block()
    body.loop()
    body.write(bytes, i32(64), 'i32.lt_u')
    body.brIf(1)
    for (const offset of offsets) body.write(at, memory128('v128.load', offset), ...(offset > 0 ? ['v128.and'] : []))
    body.write(all, 'v128.and', all, 'i64x2.eq', 'i64x2.all_true', 'i32.eqz')
    body.if()
    for (const offset of offsets)
      body.write(at, at, memory128('v128.load', offset), all, 'v128.or', memory128('v128.store', offset))
    body.end()
    body.write(at, i32(64), 'i32.add', set(at), bytes, i32(64), 'i32.sub', set(bytes))
    body.br(0)
    body.end()
    body.end()
  } else each(64, 8)
  each(8, 8)
  each(1, 1)
  return body.encode()
}

/**
 * Writes keep(shadow, bytes, bits), which marks as mark(shadow, bytes, bits) does, but only lists a long range while there is room: to list one takes
 * less time than to mark its bytes and to read their marks.
 */
function writeKeep(mark: number, list: number): Uint8Array {
  const body = new FunctionBody(MARK_SIGNATURE.parameters)
  const [at, bytes, bits] = [0, 1, 2]
  const [count, row] = [body.local(I), body.local(I)]
  body.write(bytes, i32(LISTED.leastBytes), 'i32.ge_u', i32(list), memory('i32.load'), tee(count))
  body.write(i32(LISTED.ranges), 'i32.lt_u', 'i32.and')
  body.if()
  body.write(i32(list), count, i32(1), 'i32.add', memory('i32.store'))
  body.write(count, i32(LISTED.row), 'i32.mul', i32(list + LISTED.begin), 'i32.add', set(row))
  body.write(row, at, memory('i32.store'), row, at, bytes, 'i32.add', memory('i32.store', 4))
  body.write(row, bits, 'i32.wrap_i64', i32(255), 'i32.and', memory('i32.store', 8), 'return')
  body.end()
  body.write(at, bytes, bits, call(mark))
  return body.encode()
}

/**
 * The bytes of the marks that wait: two words for each row of a block, and 256 rows at most, as only rows of four threads and more are checked as a
 * whole.
 */
const PENDING_BYTES = 256 * 8
const NOTE_SIGNATURE: Signature = { parameters: [I, I, I, I, I, 'i64'], results: [] }

/**
 * Writes note(pending, latest, shadow, bytes, mayWait, bits), which marks as mark(shadow, bytes, bits) does, but later if it may wait: mostly the
 * same row of the next block goes on where this one ends, and then it is one long range. Rows that overlap, as those of a stencil, read the same:
 * what was marked lately is not marked again.
 */
function writeNote(mark: number, keep: number): Uint8Array {
  const body = new FunctionBody(NOTE_SIGNATURE.parameters)
  const [pending, latest, shadow, bytes, mayWait, bits] = [0, 1, 2, 3, 4, 5]
  const [from, to, end] = [body.local(I), body.local(I), body.local(I)]
  body.write(mayWait, 'i32.eqz')
  body.if()
  body.write(shadow, bytes, bits, call(mark), 'return')
  body.end()
  body.write(pending, memory('i32.load'), set(from), pending, memory('i32.load', 4), set(to))
  body.write(shadow, bytes, 'i32.add', set(end), shadow, from, 'i32.ge_u', shadow, to, 'i32.le_u', 'i32.and')
  body.if()
  body.write(pending, to, end, to, end, 'i32.gt_u', 'select', memory('i32.store', 4), 'return')
  body.end()
  body.write(latest, from, i32(8), 'i32.shr_u', i32(255), 'i32.and', i32(8), 'i32.mul', 'i32.add', set(latest))
  body.write(from, latest, memory('i32.load'), 'i32.lt_u', to, latest, memory('i32.load', 4), 'i32.gt_u', 'i32.or')
  body.if()
  body.write(from, to, from, 'i32.sub', bits, call(keep))
  body.write(latest, from, memory('i32.store'), latest, to, memory('i32.store', 4))
  body.end()
  body.write(pending, shadow, memory('i32.store'), pending, end, memory('i32.store', 4))
  return body.encode()
}

const SETTLE_SIGNATURE: Signature = { parameters: [I, 'i64'], results: [] }

/** Writes settle(pending, bits), which marks all ranges that wait there. */
function writeSettle(keep: number): Uint8Array {
  const body = new FunctionBody(SETTLE_SIGNATURE.parameters)
  const [pending, bits, end] = [0, 1, body.local(I)]
  body.write(pending, i32(PENDING_BYTES), 'i32.add', set(end))
  body.loop()
  body.write(pending, memory('i32.load'), pending, memory('i32.load', 4), pending, memory('i32.load'), 'i32.sub', bits)
  body.write(call(keep), pending, i64(0n), memory('i64.store'))
  body.write(pending, i32(8), 'i32.add', tee(pending), end, 'i32.lt_u')
  body.brIf(0)
  body.end()
  return body.encode()
}

const LOOKUP_SIGNATURE: Signature = { parameters: ['i64', I, I, I], results: [I] }

/**
 * Writes lookup(address, window, bytes, span), which returns the location of an access, or 0 if no block of the table contains the access and `span`
 * bytes behind it. The block becomes the window, for all accesses that have as many bytes behind them.
 */
function writeLookup(context: ModuleContext): Uint8Array {
  const body = new FunctionBody(LOOKUP_SIGNATURE.parameters)
  const [address, window, bytes, span] = [0, 1, 2, 3]
  const distance = body.local('i64')
  const row = body.local(I)
  body.write(address, call(context.runtime('search')), tee(row), 'i32.eqz')
  body.if()
  body.write(i32(0), 'return')
  body.end()
  body.write(
    address,
    row,
    memory('i64.load'),
    'i64.sub',
    tee(distance),
    bytes,
    span,
    'i32.add',
    'i64.extend_i32_u',
    'i64.add',
    row,
    memory('i64.load', 8),
    'i64.le_u',
  )
  // The comparison with the window is right only if both the block and the address are aligned.
  body.write(
    address,
    row,
    memory('i64.load'),
    'i64.or',
    'i32.wrap_i64',
    bytes,
    i32(1),
    'i32.sub',
    'i32.and',
    'i32.eqz',
    'i32.and',
    'i32.eqz',
  )
  body.if()
  body.write(i32(0), 'return')
  body.end()
  if (context.recorded) takeShadow(body, window, row)
  body.write(
    window,
    row,
    memory('i64.load'),
    memory('i64.store'),
    window,
    row,
    memory('i64.load', 8),
    span,
    'i64.extend_i32_u',
    'i64.sub',
    bytes,
    'i32.ctz',
    'i64.extend_i32_u',
    'i64.shr_u',
    memory('i64.store', 8),
    window,
    row,
    memory('i32.load', 16),
    memory('i32.store', 16),
    distance,
    'i32.wrap_i64',
    row,
    memory('i32.load', 16),
    'i32.add',
  )
  return body.encode()
}

const BLOCKS_SIGNATURE: Signature = { parameters: [I, I, I], results: [] }

function writeBlocks(entry: number, { hasLocalMemory, threadBytes }: KernelProgram): Uint8Array {
  const body = new FunctionBody(BLOCKS_SIGNATURE.parameters)
  const [block, threads, count] = [0, 1, 2]
  const [launch, next] = [body.local(I), body.local(I)]
  /** Counts a cell up, back to zero at the limit that `end` pushes; leaves on the stack whether it reached the limit. */
  const countUp = (cell: number, end: () => void): void => {
    body.write(block, memory('i32.load', cell), i32(1), 'i32.add', set(next), block, i32(0), next, next)
    end()
    body.write('i32.eq', 'select', memory('i32.store', cell), next)
    end()
    body.op('i32.eq')
  }
  const gridDimension = (axis: number) => (): void => {
    body.write(launch, memory('i32.load', LAUNCH.nctaid + 4 * axis))
  }
  body.write(block, memory('i32.load', BLOCK.launch), set(launch))
  body.loop()
  if (hasLocalMemory) {
    body.write(block, memory('i32.load', BLOCK.frames), i32(0), threads, i32(threadBytes), 'i32.mul', 'memory.fill')
  }
  body.write(block, i32(0), threads, call(entry), 'drop')
  countUp(BLOCK.smid, () => body.i32(MULTIPROCESSORS))
  body.op('drop')
  countUp(BLOCK.ctaid, gridDimension(0))
  body.if()
  countUp(BLOCK.ctaid + 4, gridDimension(1))
  body.if()
  countUp(BLOCK.ctaid + 8, gridDimension(2))
  body.op('drop')
  body.end()
  body.end()
  body.write(count, i32(1), 'i32.sub', tee(count))
  body.brIf(0)
  body.end()
  return body.encode()
}

const SHUFFLE_SIGNATURE: Signature = { parameters: [I, I, I, I, I], results: [] }

function writeShuffle(threadBytes: number): Uint8Array {
  const body = new FunctionBody(SHUFFLE_SIGNATURE.parameters)
  const [frames, warps, value, result, inside] = [0, 1, 2, 3, 4]
  const [lane, frame] = [body.local(I), body.local(I)]
  /** Writes a loop in which `each` runs for every lane, with its frame, and its number times four. */
  const lanes = (each: () => void): void => {
    body.write(i32(0), set(lane), frames, set(frame))
    body.loop()
    each()
    body.write(frame, i32(threadBytes), 'i32.add', set(frame), lane, i32(4), 'i32.add', tee(lane), i32(128), 'i32.lt_u')
    body.brIf(0)
    body.end()
  }
  const put = (offset: number, push: () => void): void => {
    body.write(offset, i32(0), 'i32.ge_s')
    body.if()
    body.write(frame, offset, 'i32.add')
    push()
    body.memory('i32.store')
    body.end()
  }
  body.loop()
  lanes(() => {
    body.write(lane, frame, value, 'i32.add', memory('i32.load'), memory('i32.store', SHUFFLED))
  })
  lanes(() => {
    put(result, () => {
      body.write(lane, memory('i32.load', ROUTES), i32(2), 'i32.shl', memory('i32.load', SHUFFLED))
    })
    put(inside, () => {
      body.write(lane, memory('i32.load', ROUTES + 128))
    })
  })
  body.write(frame, set(frames), warps, i32(1), 'i32.sub', tee(warps))
  body.brIf(0)
  body.end()
  return body.encode()
}

const PHASE_SIGNATURE: Signature = { parameters: ['i64'], results: ['i64'] }

/** Writes phase(state), which begins the next phase of an mbarrier if no arrival and no byte is missing. */
function writePhase(): Uint8Array {
  const body = new FunctionBody(['i64'])
  body.write(0, i64(0x7fffff00000fffffn), 'i64.and', 'i64.eqz')
  body.if('i64')
  // The arrivals of each phase are awaited again, and the parity changes.
  body.write(0, 0, i64(20n), 'i64.shr_u', i64(0xfffffn), 'i64.and', 'i64.or', i64(-0x8000000000000000n), 'i64.xor')
  body.else()
  body.get(0)
  body.end()
  return body.encode()
}
