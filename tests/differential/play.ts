/** Plays a program on a device, real or simulated, and writes down what the rules force of all that can be seen. */
import { setImmediate as turn } from 'node:timers/promises'
import { CudaError, Stream } from 'cuda-streams'
import type { Latch } from '../helpers/latch.js'
import type { Workbench } from '../helpers/workbench.js'
import { GraphSteps } from './graph-steps.js'
import { HostLog } from './host-log.js'
import { mix } from './kernel.js'
import { lostStep } from './lost-steps.js'
import { MemorySteps, WIDTHS } from './memory-steps.js'
import { errorText, isError, OPEN, outcome, SKIPPED } from './outcome.js'
import { type Certainty, isGreen, Rules } from './rules.js'
import { Stage } from './stage.js'
import {
  type Act,
  CELL_BYTES,
  type Inside,
  inSet,
  namedBy,
  normalized,
  type Program,
  pick,
  type Step,
  type StepOf,
  type What,
  withSets,
} from './steps.js'
import { WRONG_CALLS } from './wrong-calls.js'

export interface Observation {
  /** What each step returned or threw; '?' where nothing forces it. The last one is of the end. */
  readonly results: readonly string[]
  /** What became of each promise that was not awaited at once. */
  readonly promises: readonly string[]
  /** How many host functions ran, and which not once. */
  readonly ran: string
  /** What was against the rules: nothing, if all is well. */
  readonly broken: readonly string[]
  /** The bytes of each buffer in the end, in hexadecimal; '?' for cells that nothing forces. */
  readonly bytes: readonly string[]
}

/** Besides what any host function may do: nothing else is under way, so that their answers are certain. */
const ALONE: ReadonlySet<What> = new Set(['begin', 'end', 'capture', 'instantiate', 'update', 'renewBuffer'])
/** Turns of the event loop in one step. */
const TURNS = 3
/** Instead of what a lost device has. */
const LOST = 'lost'
const NOT_READY = 'NOT_READY 600'
const IMPLICIT = 'STREAM_CAPTURE_IMPLICIT 906'
/** Words of memory that are not written have no bit of it, and each of those that it lacks is lacking there. */
const SIGNAL = 5
const COMPARISONS = ['geq', 'eq', 'and', 'nor'] as const
const signalOf = (bits: number): number | bigint => (bits % 2 === 0 ? SIGNAL : BigInt(SIGNAL))

/** Compiles and loads all that the programs use, which is nothing for the middle of a capture. */
export async function prepare(bench: Workbench): Promise<void> {
  for (const device of bench.devices) {
    await mix.prepare(device)
    using stream = bench.stream({ device })
    using buffer = device.alloc(CELL_BYTES, { stream })
    using pinned = device.allocPinned(CELL_BYTES)
    // Where something is refused here, the programs find out.
    for (const width of WIDTHS) for (const to of [buffer, pinned]) outcome(() => stream.fill(to, 0, { width }))
    outcome(() => stream.copy(pinned, buffer).copy(buffer, pinned))
    outcome(() => stream.launch(mix, { grid: 1, block: CELL_BYTES / 4 }, buffer, pinned, 1))
    stream.synchronize()
  }
}

/** Plays it to the end. On a real GPU the bench is used for many programs, one after the other. */
export async function play(program: Program, bench: Workbench): Promise<Observation> {
  // Each simulation is a machine of its own, and host functions launch it, in which no code can be loaded.
  for (const device of bench.devices) await mix.prepare(device)
  const player = new Player(normalized(program), bench)
  try {
    return await player.play()
  } finally {
    player.close()
  }
}

/** A promise that a stream waits for. */
interface AwaitedPromise {
  readonly settle: () => void
  readonly id: number
  isSettled: boolean
}

class Player {
  readonly #program: Program
  /** As in the first recordings: see `Edition`. */
  readonly #isFirst: boolean
  readonly #stage: Stage
  readonly #rules: Rules
  readonly #log: HostLog
  readonly #memory: MemorySteps
  readonly #graphs: GraphSteps
  readonly #latches: { readonly latch: Pick<Latch, 'open'>; readonly id: number }[] = []
  /** Promises that streams wait for. */
  readonly #awaited: AwaitedPromise[] = []
  /** What each promise came to, to be told when all is done. */
  readonly #promises: Promise<() => string>[] = []
  /** Those of the host function whose body is played. */
  #inner: Promise<() => string>[] | undefined
  /** Sets that a host function has had for itself. */
  readonly #setsUsed = new Set<number>()
  /** Events that a graph records or waits for. */
  readonly #inGraphs = new Set<number>()
  /** The stream whose host function the program is in. */
  #inside: number | undefined
  /** Does nothing else run beside that host function? */
  #isAlone = false
  /** Has the device faulted? */
  #isLost = false

  constructor(program: Program, bench: Workbench) {
    this.#program = program
    this.#isFirst = program.edition === 1
    const whole = withSets(program)
    this.#rules = new Rules(whole)
    this.#log = new HostLog(this.#rules)
    this.#stage = new Stage(whole, bench)
    this.#memory = new MemorySteps(this.#stage, this.#rules, program.edition, (stream, other) =>
      this.#waitStream(stream, other),
    )
    this.#graphs = new GraphSteps({
      stage: this.#stage,
      rules: this.#rules,
      guard: (stream, works) => this.#memory.guard(stream, works),
      memory: this.#memory,
      sparesMixed: program.edition > 3,
      sparesGreens: program.edition > 3 && program.streams.some(({ origin }) => isGreen(origin)),
      mayAllocate: () => !this.#isFirst || this.#drain(),
      sparesCaptures: this.#isFirst,
      sparesForbidden: program.edition < 5,
      countsFromNewest: program.edition > 4,
    })
  }

  async play(): Promise<Observation> {
    const results: string[] = []
    for (const step of this.#program.steps) {
      const result = this.#step(step)
      results.push(typeof result === 'string' ? result : await result)
    }
    results.push(this.#isLost ? LOST : await this.#finish())
    const settled = await Promise.all(this.#promises)
    this.#log.checkOrder()
    const { broken, summary } = this.#log
    const bytes = this.#isLost ? [LOST] : this.#memory.contents()
    return { results, promises: settled.map((told) => told()), ran: summary, broken, bytes }
  }

  /** After this the bench is as it was. */
  close(): void {
    this.#openLatches()
    for (const { settle } of this.#awaited) settle()
    this.#graphs.close()
    this.#stage.close(this.#isLost)
  }

  /** Those of the host, and of the event loop, wait for nothing inside a host function. */
  #step(step: Step): string | Promise<string> {
    if (this.#isLost) {
      const ran = (): void => void this.#log.broken.push('a host function ran on a lost device')
      return lostStep(step, this.#stage, { ran, follow: (promise) => this.#follow(promise, 0n) })
    }
    const stage = this.#stage
    const rules = this.#rules
    switch (step.what) {
      case 'host':
        return this.#host(step.stream)
      case 'callback':
        return this.#callback(step.stream)
      case 'record':
        return outcome(() => {
          stage.stream(step.stream).record(stage.event(step.event))
          rules.record(step.stream, step.event)
        })
      case 'wait':
        return outcome(() => {
          stage.stream(step.stream).wait(stage.event(step.event))
          rules.wait(step.stream, step.event)
        })
      case 'recordExternal':
        return outcome(() => {
          stage.stream(step.stream).record(stage.event(step.event), { external: true })
          if (rules.isCapturing(step.stream)) this.#inGraphs.add(step.event)
          rules.recordExternal(step.stream, step.event)
        })
      case 'waitExternal':
        return outcome(() => {
          stage.stream(step.stream).wait(stage.event(step.event), { external: true })
          if (rules.isCapturing(step.stream)) this.#inGraphs.add(step.event)
          rules.waitExternal(step.stream, step.event)
        })
      case 'waitStream':
        return this.#waitStream(step.stream, step.other)
      case 'fill':
        return this.#memory.fill(step)
      case 'copy':
        return this.#memory.copy(step)
      case 'mix':
        return this.#memory.mix(step)
      case 'copyRows':
        return this.#memory.copyRows(step)
      case 'fillRows':
        return this.#memory.fillRows(step)
      case 'copyAll':
        return this.#memory.copyAll(step)
      case 'lend':
        return this.#memory.lend(step)
      case 'external':
        return this.#memory.external(step)
      case 'nothing':
        return this.#memory.nothing(step, (promise, work) => this.#follow(promise, work))
      case 'recordNew':
        return this.#recordNew(step)
      case 'waitBy':
        return this.#waitBy(step)
      case 'aborted':
        return this.#aborted(step)
      case 'finishedDevice':
        return this.#follow(pick(stage.devices, step.device).finished(), rules.ofDevice(step.device))
      case 'capture':
        if (this.#inside !== undefined && !this.#isAlone)
          return this.#graphs.capture(step, false, (one) => this.#step(one) as string)
        break
      case 'waitDevice':
        return outcome(() => {
          stage.stream(step.stream).wait(pick(stage.devices, step.device))
          rules.waitDevice(step.stream, step.device)
        })
      case 'peek':
        return this.#memory.peek(step.buffer)
      case 'poke':
        return this.#memory.poke(step.buffer, step.at, step.value)
      case 'queryStream':
        return this.#query(() => stage.stream(step.stream).query(), rules.certaintyOfStream(step.stream))
      case 'queryEvent':
        return this.#query(() => stage.event(step.event).query(), rules.certaintyOfEvent(step.event))
      case 'elapsed':
        return this.#elapsed(step.event, step.other)
      case 'finishedStream':
        return this.#follow(stage.stream(step.stream).finished(), rules.mark(step.stream))
      case 'finishedEvent':
        return this.#follow(stage.event(step.event).finished(), rules.ofEvent(step.event) ?? 0n)
      case 'isCapturing':
        return outcome(() => stage.stream(step.stream).isCapturing)
      case 'ask':
        return this.#ask(step.stream, step.about)
      case 'launch':
        return this.#graphs.launch(step.exec, step.stream, step.guarded)
      case 'nodeCount':
        return this.#graphs.nodeCount(step.graph)
      case 'updateNode':
      case 'updateFill':
        return this.#graphs.updateFill(step)
      case 'updateCopy':
        return this.#graphs.updateCopy(step)
      case 'updateKernel':
        return this.#graphs.updateKernel(step)
      case 'uploadExec':
        return this.#graphs.uploadExec(step.exec, step.stream)
      case 'launchGraph':
        return this.#graphs.launchGraph(step.graph, step.stream)
      case 'setEnabled':
        return this.#graphs.setEnabled(step.exec, step.node, step.on)
      case 'closeEvent':
        if (this.#isFirst && this.#inGraphs.has(step.event)) return SKIPPED
        return outcome(() => stage.event(step.event).close())
      case 'renewEvent':
        // A graph goes on with the event that was there before.
        if (this.#inGraphs.has(step.event)) return SKIPPED
        rules.renewEvent(step.event)
        return outcome(() => stage.renewEvent(step.event))
      case 'closeBuffer':
        return this.#memory.close(step.buffer)
      case 'closeGraph':
        return this.#graphs.closeGraph(step.graph)
      case 'closeExec':
        return this.#graphs.closeExec(step.exec)
      case 'wrong':
        return this.#wrong(step)
      case 'open':
        return this.#latches.length === 0 ? SKIPPED : this.#open(step.latch)
      case 'closeStream':
        // To close the wrapper of another library's stream ends no capture, and afterwards nothing could.
        if (rules.isCapturing(step.stream) && (this.#isFirst || !stage.isOwn(step.stream))) return SKIPPED
        if (!stage.isAlias(step.stream)) rules.closeStream(step.stream)
        return outcome(() => stage.closeStream(step.stream))
      case 'upload':
        if (this.#isFirst) break
        return this.#memory.upload(step, (promise, work) => this.#follow(promise, work))
      case 'download':
        if (this.#isFirst) break
        return this.#memory.downloadLater(step, (promise, work, told) => this.#follow(promise, work, told))
      case 'synchronizeStream':
        if (this.#isInside(step.stream)) return outcome(() => stage.stream(step.stream).synchronize())
    }
    return this.#inside === undefined || (this.#isAlone && ALONE.has(step.what)) ? this.#outsideStep(step) : SKIPPED
  }

  /** Does the program run in a host function of this stream? */
  #isInside(stream: number): boolean {
    const { streams } = this.#program
    return this.#inside !== undefined && namedBy(streams, this.#inside) === namedBy(streams, stream)
  }

  /** Steps that a host function must not make, since they wait, or forbid others to. */
  #outsideStep(step: Step): string | Promise<string> {
    const stage = this.#stage
    const rules = this.#rules
    switch (step.what) {
      case 'latch':
        return this.#latch(step.stream)
      case 'synchronizeStream':
        return this.#block(() => stage.stream(step.stream).synchronize(), rules.ofStream(step.stream))
      case 'synchronizeEvent':
        return this.#block(() => stage.event(step.event).synchronize(), rules.ofEvent(step.event))
      case 'synchronizeDevice':
        return this.#block(() => pick(stage.devices, step.device).synchronize(), rules.ofDevice(step.device))
      case 'awaitStream':
        return this.#await(
          () => stage.stream(step.stream).finished(),
          () => rules.mark(step.stream),
        )
      case 'awaitEvent':
        return this.#await(
          () => stage.event(step.event).finished(),
          () => rules.ofEvent(step.event) ?? 0n,
        )
      case 'turn':
        return this.#turn()
      case 'upload':
        if (!rules.isCapturing(step.stream) && !this.#drain()) return SKIPPED
        return this.#memory.upload(step, (promise, work) => this.#follow(promise, work))
      case 'download':
        if (!rules.isCapturing(step.stream) && !this.#drain()) return SKIPPED
        return this.#download(step)
      case 'waitPromise':
        return this.#waitPromise(step.stream)
      case 'settle':
        return this.#awaited.length === 0 ? SKIPPED : this.#settle([pick(this.#awaited, step.promise)]).then(() => '')
      case 'waitValue':
        return this.#waitValue(step)
      case 'signal':
        return this.#signal(step)
      case 'makePool':
        return stage.pools.make(pick(stage.devices, step.device), step.limit)
      case 'closePool':
        return stage.pools.closeOne(step.pool)
      case 'usePool':
        return stage.pools.use(step.pool, step.use, step.value)
      case 'overfill':
        return stage.pools.overfill(step.pool, stage.stream(step.stream))
      case 'renewBuffer':
        return this.#memory.renew(step)
      case 'drain':
        return this.#drainHostFunctions(step.device)
      case 'capture':
        return this.#graphs.capture(step, true, (one) => this.#step(one) as string)
      case 'grow':
        return this.#graphs.grow(step, (one) => this.#step(one) as string)
      case 'begin':
        return this.#graphs.begin(step.stream, step.mode)
      case 'end':
        return this.#graphs.end(step.stream)
      case 'instantiate':
        return this.#mayWait(() => this.#graphs.instantiate(step.graph))
      case 'update':
        return this.#graphs.update(step.exec, step.graph)
      case 'renewStream':
        if ((this.#isFirst && rules.isCapturing(step.stream)) || !stage.isOrdinary(step.stream)) return SKIPPED
        if (stage.isAlias(step.stream)) return SKIPPED
        return this.#mayWait(() => {
          rules.closeStream(step.stream)
          return outcome(() => stage.renewStream(step.stream))
        })
      case 'inside':
        return this.#runInside(step)
      case 'act':
        return this.#act(step)
      case 'fault':
        return this.#fault(step.stream)
      default:
        throw new Error(`${step.what} is no step`)
    }
  }

  #host(stream: number): string {
    const label = this.#log.label()
    return outcome(() => {
      this.#stage.stream(stream).launchHostFunc(() => this.#log.ran(label))
      this.#rules.queue(stream, { label })
    })
  }

  #callback(stream: number): string {
    const label = this.#log.label()
    return outcome(() => {
      this.#stage.stream(stream).addCallback((_, status) => {
        if (status !== 0) this.#log.broken.push(`${label} had status ${status}`)
        this.#log.ran(label)
      }, undefined)
      this.#rules.queue(stream, { label })
    })
  }

  #waitStream(stream: number, other: number): string {
    const result = outcome(() => {
      this.#stage.stream(stream).wait(this.#stage.stream(other))
      this.#rules.waitStream(stream, other)
    })
    // A record was made, though the wait was refused.
    if (result.startsWith('!CudaError') && !result.endsWith(IMPLICIT)) this.#rules.mark(other)
    return result
  }

  /** An event of the stream's own, in the place of one of the program. */
  #recordNew({ stream, event }: StepOf<'recordNew'>): string {
    const { timing = false, device } = this.#program.events[event] ?? {}
    const stage = this.#stage
    if (this.#inGraphs.has(event) || stage.devices[device ?? -1] !== stage.stream(stream).device) return SKIPPED
    return outcome(() => {
      stage.replaceEvent(event, stage.stream(stream).record({ timing }))
      this.#rules.renewEvent(event)
      this.#rules.record(stream, event)
    })
  }

  /** One stream waits for another by an event of the program. */
  /** A record of the event, then a wait for it. Where only the wait is refused, the event is recorded. */
  #waitBy({ stream, other, event }: StepOf<'waitBy'>): string {
    return outcome(() => {
      try {
        this.#stage.stream(stream).wait(this.#stage.stream(other), { event: this.#stage.event(event) })
      } catch (error) {
        if (error instanceof CudaError && error.call === 'cuStreamWaitEvent') this.#rules.record(other, event)
        throw error
      }
      this.#rules.record(other, event)
      this.#rules.wait(stream, event)
    })
  }

  /** A wait that is given up before it begins. */
  #aborted({ stream, event, device, call }: StepOf<'aborted'>): string {
    const stage = this.#stage
    const signal = AbortSignal.abort(new Error('aborted'))
    const waits = [stage.stream(stream), stage.event(event), pick(stage.devices, device)]
    return this.#follow(pick(waits, call).finished({ signal }), 0n)
  }

  #latch(stream: number): string {
    if (this.#rules.captures || this.#stage.stream(stream).closed) return SKIPPED
    return outcome(() => {
      const latch = this.#stage.bench.latch(this.#stage.stream(stream))
      this.#latches.push({ latch, id: this.#rules.latch(stream) })
    })
  }

  #open(index: number): string {
    const { latch, id } = pick(this.#latches, index)
    latch.open()
    this.#rules.open(id)
    return ''
  }

  #openLatches(): void {
    for (const index of this.#latches.keys()) this.#open(index)
  }

  /** The stream stands until the promise settles, and nothing may block for that. */
  #waitPromise(stream: number): string {
    let settle = (): void => {}
    const promise = new Promise<void>((resolve) => {
      settle = resolve
    })
    return outcome(() => {
      this.#stage.stream(stream).wait(promise)
      this.#awaited.push({ settle, id: this.#rules.latch(stream), isSettled: false })
    })
  }

  async #settle(awaited: readonly AwaitedPromise[]): Promise<void> {
    for (const each of awaited) {
      each.isSettled = true
      each.settle()
      this.#rules.open(each.id)
    }
    this.#rules.yields()
    // It counts as pending until JavaScript has come to its reactions.
    await turn()
  }

  /** What blocks where a stream stands at a promise is a deadlock: all are settled first. */
  #mayWait(step: () => string): string | Promise<string> {
    const pending = this.#awaited.filter(({ isSettled }) => !isSettled)
    return pending.length === 0 ? step() : this.#settle(pending).then(step)
  }

  /** A latch of the library's own: JavaScript writes the value. */
  #waitValue({ stream, compare, bits }: StepOf<'waitValue'>): string {
    const word = this.#rules.captures ? undefined : this.#stage.word()
    if (word === undefined || this.#stage.stream(stream).closed) return SKIPPED
    return outcome(() => {
      this.#waitFor(stream, word, compare, bits)
      const id = pick(COMPARISONS, compare) === 'nor' ? this.#rules.queue(stream, {}) : this.#rules.latch(stream)
      this.#latches.push({ latch: { open: () => this.#stage.write(word, SIGNAL) }, id })
    })
  }

  /** One stream writes the value that another waits for. What is captured waits for a write that is not. */
  #signal({ stream, other, compare, bits }: StepOf<'signal'>): string {
    const word = this.#stage.word()
    if (word === undefined) return SKIPPED
    let id = -1
    const written = outcome(() => {
      this.#stage.stream(other).writeValue(this.#stage.words, signalOf(bits), { byteOffset: word })
      id = this.#rules.queue(other, { node: 'value' })
    })
    if (id < 0) return written
    const waited = outcome(() => {
      this.#waitFor(stream, word, compare, bits)
      const isOrdered = pick(COMPARISONS, compare) !== 'nor'
      if (this.#rules.isCapturing(stream)) this.#rules.queue(stream, { node: 'value' })
      else this.#rules.queueBehind(stream, isOrdered ? this.#rules.upTo(id) : 0n)
    })
    return written + waited
  }

  #waitFor(stream: number, byteOffset: number, compare: number, bits: number): void {
    const options = { byteOffset, compare: pick(COMPARISONS, compare) }
    this.#stage.stream(stream).waitValue(this.#stage.words, signalOf(bits), options)
  }

  #query(query: () => boolean, certainty: Certainty): string {
    const result = outcome(query)
    return certainty === 'open' && !isError(result) ? OPEN : result
  }

  #elapsed(start: number, end: number): string {
    const [from, to] = [this.#rules.ofEvent(start), this.#rules.ofEvent(end)]
    const result = outcome(() => {
      const milliseconds = this.#stage.event(end).elapsedSince(this.#stage.event(start))
      if (from === undefined || to === undefined || !Number.isFinite(milliseconds)) return milliseconds
      if ((from & ~to) === 0n) return milliseconds >= 0 ? 'forwards' : milliseconds
      if ((to & ~from) === 0n) return milliseconds <= 0 ? 'backwards' : milliseconds
      return 'beside'
    })
    const certainties = [start, end].map((event) => this.#rules.certaintyOfEvent(event))
    const depends = !isError(result) || result.endsWith(NOT_READY)
    return depends && !certainties.includes('pending') && certainties.includes('open') ? OPEN : result
  }

  #follow(promise: Promise<unknown>, work: bigint, told = (): string => ''): string {
    const all = this.#inner ?? this.#promises
    const name = `promise ${all.length}${all === this.#promises ? '' : ' of a host function'}`
    const settled = promise.then(
      () => {
        if (this.#rules.isHeld(work)) this.#log.broken.push(`${name} was fulfilled too early`)
        return told
      },
      (error: unknown) => () => errorText(error),
    )
    all.push(settled)
    return ''
  }

  #ask(index: number, about: number): string {
    const stream = this.#stage.stream(index)
    const answers: readonly (() => unknown)[] = [
      () => stream.priority,
      () => stream.nonBlocking,
      () => stream.id > 0n,
      () => stream.context.device === stream.device,
      () => Stream.from(stream.share()) === stream,
      () => typeof stream.valueOf(),
    ]
    return outcome(() => pick(answers, about)())
  }

  #wrong({ which, stream, event, buffer }: Extract<Step, { what: 'wrong' }>): string {
    const given = {
      device: this.#stage.stream(stream).device,
      stream: this.#stage.stream(stream),
      event: this.#stage.event(event),
      buffer: this.#stage.buffer(buffer),
    }
    return outcome(() => void pick(WRONG_CALLS, which)(given))
  }

  /**
   * A latch that stood meanwhile could make this wait forever, also one of another stream: streams share hardware queues.
   * What is done already is waited for beside a latch, too. What an event marks nobody may know, after a call that failed.
   */
  #block(wait: () => void, work: bigint | undefined): string | Promise<string> {
    return this.#mayWait(() => {
      const isDone = work === undefined ? this.#program.edition < 5 : this.#rules.certainty(work) === 'done'
      if (this.#isFirst || !isDone) this.#openLatches()
      this.#rules.yields()
      return outcome(() => {
        wait()
        this.#waited(work ?? 0n)
      })
    })
  }

  /** How much of the other work is done afterwards nobody says. */
  #drainHostFunctions(device: number): string | Promise<string> {
    return this.#mayWait(() => {
      this.#openLatches()
      this.#rules.yields()
      return outcome(() => pick(this.#stage.devices, device).drainHostFunctions())
    })
  }

  async #await(wait: () => Promise<void>, mark: () => bigint): Promise<string> {
    await this.#mayWait(() => '')
    this.#openLatches()
    this.#rules.yields()
    try {
      const promise = wait()
      const work = mark()
      await promise
      this.#waited(work)
      return ''
    } catch (error) {
      return errorText(error)
    }
  }

  async #download(step: Extract<Step, { what: 'download' }>): Promise<string> {
    this.#openLatches()
    this.#rules.yields()
    const result = await this.#memory.download(step)
    this.#log.checkRun()
    return result
  }

  async #turn(): Promise<string> {
    this.#rules.yields()
    for (let left = TURNS; left > 0; left -= 1) await turn()
    return ''
  }

  #waited(work: bigint): void {
    this.#rules.waited(work)
    this.#log.checkRun()
  }

  /** Lets all be done, so that nothing is open. False while a capture forbids it. */
  #drain(): boolean {
    if (this.#rules.captures) return false
    this.#openLatches()
    this.#rules.yields()
    for (let left = this.#rounds; left > 0; left -= 1) for (const device of this.#stage.devices) device.synchronize()
    this.#waited(this.#rules.ofEverything())
    return true
  }

  /** A wait for the device does not wait for what host functions queue meanwhile: a second one does. */
  get #rounds(): number {
    return this.#setsUsed.size > 0 ? 2 : 1
  }

  /**
   * A host function that makes steps whenever it runs. What it plays with is its own, so that it does not matter when
   * that is; it waits for nothing, since other streams may share its hardware queue.
   */
  #act({ stream: index, set, how, body }: Act): string {
    if (this.#rules.isCapturing(index) || this.#setsUsed.has(set)) return SKIPPED
    const label = this.#log.label()
    const stream = this.#stage.stream(index)
    let id = -1
    let settle: (told: () => string) => void = () => {}
    const told = new Promise<() => string>((resolve) => {
      settle = resolve
    })
    const act = (): void => {
      const results: string[] = []
      const inner: Promise<() => string>[] = []
      this.#log.ran(label)
      const known = this.#rules.enter(id)
      this.#inner = inner
      this.#inside = index
      this.#log.within(label, () => {
        for (const step of body) results.push(this.#step(inSet(this.#program, set, step)) as string)
      })
      this.#inside = undefined
      this.#inner = undefined
      this.#rules.leave(id, known)
      this.#rules.yields()
      void Promise.all(inner).then((all) => settle(() => [...results, ...all.map((each) => each())].join(' | ')))
    }
    const queued = outcome(() => {
      if (how === 0) stream.launchHostFunc(act)
      else stream.addCallback(act, undefined)
      id = this.#rules.queue(index, { label })
    })
    if (id < 0) return queued
    this.#setsUsed.add(set)
    this.#promises.push(told)
    return queued
  }

  /** The device is lost, and the process with it: what is done afterwards is refused, and nothing is compared but that. */
  async #fault(index: number): Promise<string> {
    const stream = this.#stage.stream(index)
    await this.#mayWait(() => '')
    if (stream.closed || !this.#drain()) return SKIPPED
    // All is done, but of a promise the event loop has to hear: a fault that comes first makes it reject.
    if (this.#program.edition > 3) await Promise.all(this.#promises)
    const { bench } = this.#stage
    const ran: string[] = []
    const latch = bench.latch(stream)
    const heard = new Promise<void>((resolve) => {
      stream.launchHostFunc(() => ran.push('before'))
      bench.fault(stream)
      stream.launchHostFunc(() => ran.push('behind'))
      stream.addCallback((_, status) => {
        ran.push(`callback ${status}`)
        resolve()
      }, undefined)
    })
    const finished = stream.finished().then(() => '', errorText)
    const event = stream.record()
    latch.open()
    const waited = outcome(() => stream.synchronize())
    this.#isLost = true
    await heard
    const asked = outcome(() => event.query())
    event.close()
    return [waited, await finished, asked, ran.join(', ')].join(' | ')
  }

  /** A host function that makes steps runs alone: when it runs is certain then. */
  async #runInside({ stream: index, how, body }: Inside): Promise<string> {
    await this.#mayWait(() => '')
    if (!this.#drain()) return SKIPPED
    const results: string[] = []
    const label = this.#log.label()
    const stream = this.#stage.stream(index)
    let id = -1
    const queued = outcome(() => {
      stream.launchHostFunc(() => {
        this.#log.ran(label)
        this.#rules.enter(id)
        this.#inside = index
        this.#isAlone = true
        for (const step of body) results.push(this.#step(step) as string)
        this.#isAlone = false
        this.#inside = undefined
        this.#rules.leave(id)
      })
      id = this.#rules.queue(index, { label })
    })
    if (id < 0) return queued
    this.#rules.yields()
    const waited = how === 0 ? outcome(() => stream.synchronize()) : await stream.finished().then(() => '', errorText)
    // The wait may have run those that were queued inside.
    this.#rules.yields()
    this.#drain()
    return [queued, ...results, waited].join(' | ')
  }

  async #finish(): Promise<string> {
    await this.#mayWait(() => '')
    this.#openLatches()
    this.#rules.yields()
    const ends = this.#graphs.endAll()
    for (let left = this.#rounds; left > 0; left -= 1) {
      for (const device of this.#stage.devices) {
        if (this.#program.ending === 'blocking') device.synchronize()
        else await device.finished()
      }
    }
    this.#waited(this.#rules.ofEverything())
    return ends
  }
}
