/** Plays a program on a device, real or simulated, and writes down what the rules force of all that can be seen. */
import { setImmediate as turn } from 'node:timers/promises'
import type { Latch, Workbench } from '../helpers/workbench.js'
import { GraphSteps } from './graph-steps.js'
import { HostLog } from './host-log.js'
import { mix } from './kernel.js'
import { MemorySteps, WIDTHS } from './memory-steps.js'
import { errorText, isError, OPEN, outcome, SKIPPED } from './outcome.js'
import { Rules } from './rules.js'
import { Stage } from './stage.js'
import { CELL_BYTES, type Inside, normalized, type Program, pick, type Step } from './steps.js'
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

/** Turns of the event loop in one step. */
const TURNS = 3
const NOT_READY = 'NOT_READY 600'
const IMPLICIT = 'STREAM_CAPTURE_IMPLICIT 906'

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
  const player = new Player(normalized(program), bench)
  try {
    return await player.play()
  } finally {
    player.close()
  }
}

class Player {
  readonly #program: Program
  readonly #stage: Stage
  readonly #rules: Rules
  readonly #log: HostLog
  readonly #memory: MemorySteps
  readonly #graphs: GraphSteps
  readonly #latches: { readonly latch: Latch; readonly id: number }[] = []
  readonly #promises: Promise<string>[] = []
  /** Events that a graph uses must stay. */
  readonly #inGraphs = new Set<number>()
  /** The stream whose host function the program is in. */
  #inside: number | undefined

  constructor(program: Program, bench: Workbench) {
    this.#program = program
    this.#rules = new Rules(program)
    this.#log = new HostLog(this.#rules)
    this.#stage = new Stage(program, bench)
    this.#memory = new MemorySteps(this.#stage, this.#rules, (stream, other) => this.#waitStream(stream, other))
    this.#graphs = new GraphSteps({
      stage: this.#stage,
      rules: this.#rules,
      guard: (stream, works) => this.#memory.guard(stream, works),
      drain: () => this.#drain(),
    })
  }

  async play(): Promise<Observation> {
    const results: string[] = []
    for (const step of this.#program.steps) {
      const result = this.#step(step)
      results.push(typeof result === 'string' ? result : await result)
    }
    results.push(await this.#finish())
    const promises = await Promise.all(this.#promises)
    this.#log.checkOrder()
    const { broken, summary } = this.#log
    return { results, promises, ran: summary, broken, bytes: this.#memory.contents() }
  }

  /** After this the bench is as it was. */
  close(): void {
    this.#openLatches()
    this.#graphs.close()
    this.#stage.close()
  }

  /** Those of the host, and of the event loop, wait for nothing inside a host function. */
  #step(step: Step): string | Promise<string> {
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
      case 'peek':
        return this.#memory.peek(step.buffer)
      case 'poke':
        return this.#memory.poke(step.buffer, step.at, step.value)
      case 'queryStream':
        return this.#query(() => stage.stream(step.stream).query(), rules.ofStream(step.stream))
      case 'queryEvent':
        return this.#query(() => stage.event(step.event).query(), rules.ofEvent(step.event))
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
      case 'closeEvent':
        if (this.#inGraphs.has(step.event)) return SKIPPED
        return outcome(() => stage.event(step.event).close())
      case 'renewEvent':
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
      case 'synchronizeStream':
        if (this.#inside === step.stream) return outcome(() => stage.stream(step.stream).synchronize())
    }
    return this.#inside === undefined ? this.#outsideStep(step) : SKIPPED
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
        return this.#block(() => stage.event(step.event).synchronize(), rules.ofEvent(step.event) ?? 0n)
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
        return this.#memory.upload(step, (promise) => this.#follow(promise, 0n))
      case 'download':
        if (!rules.isCapturing(step.stream) && !this.#drain()) return SKIPPED
        return this.#download(step)
      case 'begin':
        return this.#graphs.begin(step.stream, step.mode)
      case 'end':
        return this.#graphs.end(step.stream)
      case 'instantiate':
        return this.#graphs.instantiate(step.graph)
      case 'update':
        return this.#graphs.update(step.exec, step.graph)
      case 'closeStream':
        if (rules.isCapturing(step.stream)) return SKIPPED
        return outcome(() => stage.stream(step.stream).close())
      case 'renewStream':
        if (rules.isCapturing(step.stream) || !stage.isOrdinary(step.stream)) return SKIPPED
        rules.renewStream(step.stream)
        return outcome(() => stage.renewStream(step.stream))
      case 'inside':
        return this.#runInside(step)
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

  #query(query: () => boolean, work: bigint | undefined): string {
    const certainty = work === undefined ? 'open' : this.#rules.certainty(work)
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
    const certainties = [from, to].map((work) => (work === undefined ? 'open' : this.#rules.certainty(work)))
    const depends = !isError(result) || result.endsWith(NOT_READY)
    return depends && !certainties.includes('pending') && certainties.includes('open') ? OPEN : result
  }

  #follow(promise: Promise<unknown>, work: bigint): string {
    const index = this.#promises.length
    const settled = promise.then(() => {
      if (this.#rules.isHeld(work)) this.#log.broken.push(`promise ${index} was fulfilled too early`)
      return ''
    }, errorText)
    this.#promises.push(settled)
    return ''
  }

  #ask(index: number, about: number): string {
    const stream = this.#stage.stream(index)
    return outcome(() => [() => stream.priority, () => stream.nonBlocking, () => stream.id > 0n][about]?.())
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

  /** A latch that stood meanwhile would make this wait for ever. */
  #block(wait: () => void, work: bigint): string {
    this.#openLatches()
    this.#rules.yields()
    return outcome(() => {
      wait()
      this.#waited(work)
    })
  }

  async #await(wait: () => Promise<void>, mark: () => bigint): Promise<string> {
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
    for (const device of this.#stage.devices) device.synchronize()
    this.#waited(this.#rules.ofEverything())
    return true
  }

  /** A host function that makes steps runs alone: when it runs is certain then. */
  async #runInside({ stream: index, how, body }: Inside): Promise<string> {
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
        for (const step of body) results.push(this.#step(step) as string)
        this.#inside = undefined
        this.#rules.leave(id)
      })
      id = this.#rules.queue(index, { label })
    })
    if (id < 0) return queued
    const waited = how === 0 ? outcome(() => stream.synchronize()) : await stream.finished().then(() => '', errorText)
    this.#drain()
    return [queued, ...results, waited].join(' | ')
  }

  async #finish(): Promise<string> {
    this.#openLatches()
    this.#rules.yields()
    const ends = this.#graphs.endAll()
    for (const device of this.#stage.devices) {
      if (this.#program.ending === 'blocking') device.synchronize()
      else await device.finished()
    }
    this.#waited(this.#rules.ofEverything())
    return ends
  }
}
