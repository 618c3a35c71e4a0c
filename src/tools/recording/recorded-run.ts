/** A recording as a whole: the calls of the host in their order, and the work of the streams with its times. */

import { IntervalMap } from '../../foundation/base/interval-map.js'
import { isOfPackages, placeInPython } from '../../foundation/base/stack.js'
import { isDefaultStream, isNullStream, type StreamHandle } from '../../foundation/driver/handle-types.js'
import { memoryOf } from '../../foundation/driver/queued-work.js'
import type { CopiedBytes, TouchedMemory } from '../../foundation/driver/touched-memory.js'
import {
  type Awaited,
  type InRun,
  type LaunchSize,
  type Operation,
  type RecordedRun,
  type RecordedStream,
  STAGING,
  type Step,
  shareOf,
} from '../prediction/run.js'
import type { Header, StreamFacts } from './lines.js'
import type { Reader, TimedCall } from './reader.js'
import { type KnownMemory, type RecordedOperation, type RecordedWork, touchedBy } from './work-table.js'

/** A recording of a file as a run. */
export interface RunOfRecording extends RecordedRun {
  readonly header: Header
  readonly isComplete: boolean
  readonly operations: number
  /** The number of operations of a kind that is timed which have no times. */
  readonly untimed: number
}

export function readRun(reader: Reader): RunOfRecording {
  return new RunBuilder(reader).build()
}

/** The memory that a graph touches, as far as it is known. */
class GraphMemory {
  readonly #touched: TouchedMemory[] = []
  #isKnown = true

  /** The memory; undefined if something of it is not known. */
  get memory(): readonly TouchedMemory[] | undefined {
    return this.#isKnown ? this.#touched : undefined
  }

  add(memory: readonly TouchedMemory[] | undefined): this {
    if (memory === undefined) this.#isKnown = false
    else for (const each of memory) this.#touched.push(each)
    return this
  }
}

class RunBuilder {
  readonly #steps: Step[] = []
  readonly #streams: RecordedStream[] = []
  readonly #facts = new Map<number, StreamFacts>()
  readonly #byHandle = new Map<number, RecordedStream>()
  readonly #byCall = new Map<number, Operation>()
  readonly #hostMemory = new IntervalMap<true>(() => true)
  readonly #sites = new Map<string, string>()
  /** The memory of the work that each stream captures. */
  readonly #capturing = new Map<RecordedStream, GraphMemory>()
  /** The events whose latest record was captured, with the memory of that capture. */
  readonly #captured = new Map<number, GraphMemory>()
  readonly #graphs = new Map<number, GraphMemory>()
  readonly #execs = new Map<number, readonly TouchedMemory[] | undefined>()
  readonly #known: KnownMemory = {
    allocated: new Map(),
    ofInstance: (exec) => this.#execs.get(exec),
    ofGraph: (graph) => this.#graphs.get(graph)?.memory,
  }
  /** The scopes that are open: host functions, and calls that block. */
  readonly #open: { readonly step: number; readonly operation: number }[] = []
  /** The step at which each promise began; keys are the calls that made them. */
  readonly #promises = new Map<number, number>()
  #current: TimedCall | undefined
  /** Whether kernels in graphs are those of the trace of a process. */
  #hasTracedGraphs = false

  constructor(private readonly reader: Reader) {}

  build(): RunOfRecording {
    const { reader } = this
    for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
      if (entry.what === 'stream') this.#learn(entry.facts)
      else if (entry.what === 'times') entry.each((call, start, end) => this.#ran(call, start, end))
      else if (entry.what === 'call') {
        this.#current = entry
        reader.within(() => this.#call(entry))
      }
    }
    const operations = [...this.#byCall.values()]
    const untimed = operations.filter(({ kind, start }) => TIMED.includes(kind) && Number.isNaN(start)).length
    const { header, isComplete } = reader
    return {
      header,
      steps: this.#steps,
      streams: this.#streams,
      isComplete,
      operations: operations.length,
      untimed,
      hostMemory: this.#hostMemory,
    }
  }

  #ran(call: number, start: number, end: number): void {
    const operation = this.#byCall.get(call)
    if (operation === undefined) return
    operation.start = start
    operation.end = end
  }

  #learn(facts: StreamFacts): void {
    this.#facts.set(facts.stream, facts)
    this.#byHandle.delete(facts.stream)
  }

  #streamOf(handle: number): RecordedStream {
    let stream = this.#byHandle.get(handle)
    if (stream === undefined) {
      const known = handle as StreamHandle
      const { device = 0, nonBlocking = true, priority = 0, name = 'stream' } = this.#facts.get(handle) ?? {}
      const isNull = isDefaultStream(known) && isNullStream(known)
      stream = { index: this.#streams.length, device, nonBlocking, isNull, priority, name }
      this.#streams.push(stream)
      this.#byHandle.set(handle, stream)
    }
    return stream
  }

  #inRun(): InRun {
    const { number = -1, began = 0, ended = 0, stack = '', more } = this.#current ?? {}
    return { number, began, ended, own: more?.own ?? 0, site: this.#siteOf(stack) }
  }

  #siteOf(stack: string): string {
    let site = this.#sites.get(stack)
    if (site === undefined) {
      site = siteIn(stack)
      this.#sites.set(stack, site)
    }
    return site
  }

  #host(): void {
    this.#steps.push({ what: 'host', ...this.#inRun() })
  }

  #begin(awaited: Awaited, operation = -1): void {
    this.#open.push({ step: this.#steps.length, operation })
    this.#steps.push({ what: 'begin', awaited, ...this.#inRun() })
  }

  #call({ call, number, more }: TimedCall): void {
    switch (call.call) {
      case 'queue':
        this.#queue(call.work, more.captured === true)
        break
      case 'record':
      case 'recordInternal':
        this.#record(this.#streamOf(call.stream), call.event)
        break
      case 'recordDevice':
        this.#steps.push({ what: 'recordDevice', device: call.device, event: call.event, ...this.#inRun() })
        break
      case 'wait':
        this.#wait(this.#streamOf(call.stream), call.event)
        break
      case 'waitStream':
        this.#waitStream(this.#streamOf(call.stream), this.#streamOf(call.other))
        break
      case 'synchronizeDevice':
        this.#begin({ of: 'device', device: call.device })
        break
      case 'synchronizeStream':
        this.#begin({ of: 'stream', stream: this.#streamOf(call.stream) })
        break
      case 'synchronizeEvent':
        this.#begin({ of: 'event', event: call.event })
        break
      case 'drain':
        this.#begin({ of: 'hostFunctions' })
        break
      case 'host':
        this.#hostFunctionRuns(more.op ?? -1)
        break
      case 'return':
        this.#returns()
        break
      case 'deviceFinished':
        this.#promise(number, { of: 'device', device: call.device })
        break
      case 'streamFinished':
        this.#promise(number, { of: 'stream', stream: this.#streamOf(call.stream) })
        break
      case 'eventFinished':
        this.#promise(number, { of: 'event', event: call.event })
        break
      case 'settled': {
        const begun = this.#promises.get(more.op ?? -1)
        if (begun === undefined) this.#host()
        else this.#steps.push({ what: 'go', begun, ...this.#inRun() })
        break
      }
      case 'release':
        this.#steps.push({ what: 'let', operation: more.op ?? -1, ...this.#inRun() })
        break
      case 'streamIsIdle':
        this.#steps.push({
          what: 'seen',
          awaited: { of: 'stream', stream: this.#streamOf(call.stream) },
          ...this.#inRun(),
        })
        break
      case 'eventIsDone':
        this.#steps.push({ what: 'seen', awaited: { of: 'event', event: call.event }, ...this.#inRun() })
        break
      case 'createStream':
      case 'wrapStream':
        this.#byHandle.delete(call.stream)
        this.#host()
        break
      case 'ran':
      case 'turn':
        // The program does nothing here: the time before is that of what it does next.
        break
      case 'declareAccess':
        this.#declared(call)
        break
      case 'allocatePinned':
      case 'registerPinned':
      case 'viewed':
        this.#isOfHost(call.pointer, call.byteLength)
        this.#host()
        break
      default:
        this.#graphCall(call)
        this.#host()
    }
  }

  #graphCall(call: TimedCall['call']): void {
    if (call.call === 'beginCapture') this.#capturing.set(this.#streamOf(call.stream), new GraphMemory())
    else if (call.call === 'beginCaptureInto') {
      this.#capturing.set(this.#streamOf(call.stream), new GraphMemory().add(this.#graphs.get(call.graph)?.memory))
    } else if (call.call === 'addConditional') {
      const { into, bodies } = call
      const memory = 'stream' in into ? this.#capturing.get(this.#streamOf(into.stream)) : this.#graphs.get(into.body)
      for (const body of bodies) this.#graphs.set(body, memory ?? new GraphMemory().add(undefined))
    } else if (call.call === 'addToBody') {
      this.#graphs.get(call.body)?.add(this.#graphs.get(call.graph)?.memory)
    } else if (call.call === 'endCapture') {
      const memory = this.#capturing.get(this.#streamOf(call.stream))
      this.#graphs.set(call.graph, memory ?? new GraphMemory().add(undefined))
      this.#leaveCapture(memory)
    } else if (call.call === 'abandonCapture' || call.call === 'captureFailed') {
      this.#leaveCapture(this.#capturing.get(this.#streamOf(call.stream)))
    } else if (call.call === 'instantiate' || call.call === 'updateGraph') {
      this.#execs.set(call.exec, this.#graphs.get(call.graph)?.memory)
    } else if (call.call === 'updateNode') {
      const known = this.#execs.get(call.exec)
      const added = touchedBy(call.work, this.#known) ?? []
      if (known !== undefined) this.#execs.set(call.exec, [...known, ...added])
    }
  }

  #leaveCapture(memory: GraphMemory | undefined): void {
    for (const [stream, captured] of this.#capturing) if (captured === memory) this.#capturing.delete(stream)
    for (const [event, captured] of this.#captured) if (captured === memory) this.#captured.delete(event)
  }

  #record(stream: RecordedStream, event: number): void {
    const capture = this.#capturing.get(stream)
    if (capture !== undefined) {
      this.#captured.set(event, capture)
      this.#host()
    } else {
      this.#captured.delete(event)
      this.#steps.push({ what: 'record', stream, event, ...this.#inRun() })
    }
  }

  #wait(stream: RecordedStream, event: number): void {
    const capture = this.#captured.get(event)
    if (capture !== undefined) this.#capturing.set(stream, capture)
    if (this.#capturing.has(stream)) this.#host()
    else this.#steps.push({ what: 'wait', stream, event, ...this.#inRun() })
  }

  #waitStream(stream: RecordedStream, other: RecordedStream): void {
    const capture = this.#capturing.get(other)
    if (capture !== undefined) this.#capturing.set(stream, capture)
    if (this.#capturing.has(stream)) this.#host()
    else this.#steps.push({ what: 'waitStream', stream, other, ...this.#inRun() })
  }

  #promise(number: number, awaited: Awaited): void {
    this.#promises.set(number, this.#steps.length)
    this.#steps.push({ what: 'begin', awaited, ...this.#inRun() })
  }

  #hostFunctionRuns(operation: number): void {
    if (!this.#byCall.has(operation)) {
      this.#open.push({ step: -1, operation: -1 })
      this.#host()
      return
    }
    this.#steps.push({ what: 'seen', awaited: { of: 'reached', operation }, ...this.#inRun() })
    this.#open.push({ step: -1, operation })
  }

  #returns(): void {
    const scope = this.#open.pop()
    if (scope === undefined) this.#host()
    else if (scope.operation >= 0) this.#steps.push({ what: 'let', operation: scope.operation, ...this.#inRun() })
    else if (scope.step >= 0) this.#steps.push({ what: 'go', begun: scope.step, ...this.#inRun() })
    else this.#host()
  }

  #queue(work: RecordedWork, captured: boolean): void {
    if (work.kind === 'library') {
      const { operation } = work
      for (const { name, stream, memory } of work.calls) {
        if (operation === undefined) this.#add(this.#streamOf(stream), work, name, memory, captured)
        else this.#addOfLibrary(this.#streamOf(stream), operation, memory, captured)
      }
      if (work.calls.length === 0) this.#host()
      return
    }
    // The free is in no stream, and comes after all that uses the memory.
    if (work.kind === 'free' && work.after !== undefined) {
      this.#host()
      return
    }
    if (work.kind === 'copy') this.#learnFromCopy(work, work.engine)
    else if (work.kind === 'copies') for (const copy of work.copies) this.#learnFromCopy(copy, undefined)
    const stream = this.#streamOf(work.stream)
    this.#add(stream, work, nameOf(work), touchedBy(work, this.#known), captured)
  }

  /** Learns from copies what was pinned before the recording began. */
  #learnFromCopy(copy: CopiedBytes, engine: 'toDevice' | 'toHost' | undefined): void {
    const [to, from] = memoryOf({ kind: 'copy', ...copy })
    const isWithinHost = copy.route === 'withinHost'
    if (to !== undefined && (isWithinHost || engine === 'toHost')) this.#isOfHost(to.pointer, to.byteLength)
    if (from !== undefined && (isWithinHost || engine === 'toDevice')) this.#isOfHost(from.pointer, from.byteLength)
  }

  #isOfHost(pointer: number, byteLength: number): void {
    this.#hostMemory.update(pointer, pointer + byteLength, () => true)
  }

  #add(
    stream: RecordedStream,
    work: RecordedWork,
    name: string,
    memory: readonly TouchedMemory[] | undefined,
    captured: boolean,
  ): void {
    if (captured) {
      // Bytes are staged in memory of the library's own.
      this.#capturing.get(stream)?.add(name === STAGING && work.kind === 'hostFunction' ? [] : memory)
      this.#host()
      return
    }
    const engine = this.#engineOf(work)
    const share = work.kind === 'kernel' ? this.#shareOf(work, stream) : 0
    const instance = work.kind === 'graph' ? work.exec : undefined
    const known = { isPartlyKnown: work.kind === 'graph' && this.#hasTracedGraphs, sharesWithHost: false }
    const operation = this.#operation({ stream, kind: work.kind, name, memory, engine, share, instance, ...known })
    this.#byCall.set(operation.number, operation)
  }

  /** Adds an operation that the trace of a process has timed. */
  #addOfLibrary(
    stream: RecordedStream,
    operation: RecordedOperation,
    known: readonly TouchedMemory[],
    captured: boolean,
  ): void {
    const memory = operation.possible ? known.map((each): TouchedMemory => ({ ...each, access: 'inout' })) : known
    if (captured) {
      this.#capturing.get(stream)?.add(memory)
      this.#hasTracedGraphs = true
      this.#host()
      return
    }
    const { kind, name, grid = ONE, block = ONE, host: sharesWithHost } = operation
    const isKernel = kind === 'kernel'
    const engine: Operation['engine'] = isKernel ? undefined : (operation.engine ?? 'memory')
    const share = isKernel ? this.#shareOf({ grid, block }, stream) : 0
    const made = { stream, kind, name, memory, engine, share, instance: undefined }
    const added = this.#operation({ ...made, isPartlyKnown: isKernel, sharesWithHost })
    this.#byCall.set(added.number, added)
  }

  #declared({ stream: handle, what, memory }: Extract<TimedCall['call'], { readonly call: 'declareAccess' }>): void {
    const stream = this.#streamOf(handle)
    const capture = this.#capturing.get(stream)
    if (capture === undefined) {
      const unmeasured = {
        engine: undefined,
        share: 0,
        instance: undefined,
        isPartlyKnown: false,
        sharesWithHost: false,
      }
      this.#operation({ stream, kind: 'declared', name: what, memory, ...unmeasured })
    } else {
      capture.add(memory)
      this.#host()
    }
  }

  #operation(known: Omit<Operation, keyof InRun | 'what' | 'start' | 'end'>): Operation {
    const times = { start: Number.NaN, end: Number.NaN }
    const operation: Operation = { what: 'operation', ...known, ...times, ...this.#inRun() }
    this.#steps.push(operation)
    return operation
  }

  #engineOf(work: RecordedWork): Operation['engine'] {
    if (work.kind === 'copy' && work.engine !== undefined) return work.engine
    const isWithinDevice = work.kind === 'copy' || work.kind === 'copies' || work.kind === 'fill'
    return isWithinDevice && this.reader.header.driver === 'cuda' ? 'memory' : undefined
  }

  /** The part of the device that a kernel occupies. The simulator runs kernels side by side whatever their size. */
  #shareOf(work: LaunchSize, { device }: RecordedStream): number {
    const { driver, devices } = this.reader.header
    const known = devices[device]
    return driver === 'sim' || known === undefined ? 0 : shareOf(work, known)
  }
}

/** The kinds of work that a device takes time for. */
const TIMED: readonly Operation['kind'][] = ['kernel', 'copy', 'copies', 'fill', 'graph']

const ONE: readonly [number, number, number] = [1, 1, 1]

function nameOf(work: Exclude<RecordedWork, { readonly kind: 'library' }>): string {
  if (work.kind === 'kernel' || work.kind === 'copy') return work.name
  if (work.kind === 'copies') return 'copy'
  if (work.kind === 'hostFunction') return work.internal ? STAGING : 'host function'
  return work.kind
}

const PLACE = /\(?(?:file:\/\/)?([^()\s]+):(\d+):(\d+)\)?$/

interface Place {
  readonly path: string
  readonly row: string
  /** The column; undefined in Python. */
  readonly column: string | undefined
}

/** The place of the innermost line of a stack that has one. In Python that is the program's, if there is one outside of packages. */
export function placeIn(stack: string): Place | undefined {
  let inPackage: Place | undefined
  for (const each of stack.split('\n')) {
    const line = each.trim()
    const [, path, row, column] = PLACE.exec(line) ?? []
    if (path !== undefined && row !== undefined && column !== undefined) return { path, row, column }
    const inPython = placeInPython(line)
    // Row 0 stands for the compiled part of a package.
    if (inPython === undefined || inPython.row === 0) continue
    const place = { path: inPython.path, row: String(inPython.row), column: undefined }
    if (!isOfPackages(`    ${line}`)) return place
    inPackage ??= place
  }
  return inPackage
}

/** The place of the innermost line of a stack as 'path:row'; empty if there is none. */
function siteIn(stack: string): string {
  const place = placeIn(stack)
  return place === undefined ? '' : `${place.path}:${place.row}`
}
