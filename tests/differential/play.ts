/** Plays a program on a device, real or simulated, and writes down what the rules force of all that can be seen. */

import { setImmediate as turn } from 'node:timers/promises'
import {
  type DeviceBuffer,
  type Event,
  ExternalStream,
  type Graph,
  type GraphExec,
  type PinnedBuffer,
  Stream,
} from 'cuda-streams'
import type { Latch, Workbench } from '../helpers/workbench.js'
import { mix } from './kernel.js'
import { accessesOf, type Captured, type Instance, Rules, type Work } from './rules.js'
import { BUFFERS, CELL_BYTES, CELLS, type Inside, type Program, pick, type Step } from './steps.js'
import { WRONG_CALLS } from './wrong-calls.js'

export interface Observation {
  /** What each step returned or threw; '?' where nothing forces it. */
  readonly results: readonly string[]
  /** What became of each promise that was not awaited at once. */
  readonly promises: readonly string[]
  /** How often each host function ran. */
  readonly ran: string
  /** What was against the rules: nothing, if all is well. */
  readonly broken: readonly string[]
  /** The bytes of each buffer in the end, in hexadecimal; '?' for cells that nothing forces. */
  readonly bytes: readonly string[]
}

const SKIPPED = 'skipped'
const OPEN = '?'
const TURNS = 3
const NOT_READY = 600
const WIDTHS = [1, 2, 4] as const
const MODES = ['global', 'threadLocal', 'relaxed'] as const

/** Compiles and loads all that the programs use, which is nothing for the middle of a capture. */
export async function prepare(bench: Workbench): Promise<void> {
  for (const device of bench.devices) {
    await mix.prepare(device)
    using stream = bench.stream({ device })
    using buffer = device.alloc(CELL_BYTES, { stream })
    using pinned = device.allocPinned(CELL_BYTES)
    for (const width of WIDTHS) for (const to of [buffer, pinned]) stream.fill(to, 0, { width })
    stream.copy(pinned, buffer).copy(buffer, pinned)
    stream.launch(mix, { grid: 1, block: CELL_BYTES / 4 }, buffer, pinned, 1)
    stream.synchronize()
  }
}

/** Plays it to the end. On a real GPU the bench is used for many programs, one after the other. */
export async function play(program: Program, bench: Workbench): Promise<Observation> {
  const player = new Player(program, bench)
  try {
    return await player.play()
  } finally {
    player.close()
  }
}

interface Stands {
  readonly latch: Latch
  readonly id: number
}

class Player {
  readonly #program: Program
  readonly #bench: Workbench
  readonly #rules: Rules
  readonly #home: Stream
  readonly #streams: readonly Stream[]
  readonly #foreign: bigint[] = []
  readonly #events: readonly Event[]
  readonly #buffers: readonly (DeviceBuffer | PinnedBuffer)[]
  readonly #latches: Stands[] = []
  readonly #graphs: { readonly graph: Graph; readonly captured: Captured }[] = []
  readonly #execs: { readonly exec: GraphExec; readonly instance: Instance }[] = []
  /** Buffers that a graph uses must stay. */
  readonly #captured = new Set<number>()
  readonly #runs = new Map<string, number>()
  readonly #promises: Promise<string>[] = []
  readonly #broken: string[] = []
  #nextLabel = 0
  /** The stream whose host function the program is in. */
  #inside: number | undefined

  constructor(program: Program, bench: Workbench) {
    this.#program = program
    this.#bench = bench
    this.#rules = new Rules(program)
    const { device } = bench
    this.#home = bench.stream()
    this.#streams = program.streams.map((_, index) => this.#makeStream(index))
    this.#events = program.events.map(({ timing, device: on }) => pick(bench.devices, on).createEvent({ timing }))
    this.#buffers = BUFFERS.map(({ pinned, device: on }) => {
      const where = pick(bench.devices.slice(0, program.devices), on)
      if (pinned) return device.allocPinned(CELLS * CELL_BYTES)
      return where.alloc(CELLS * CELL_BYTES, where === device ? { stream: this.#home } : {})
    })
    for (const [index, buffer] of this.#buffers.entries()) {
      if (BUFFERS[index]?.pinned) (buffer as PinnedBuffer).bytes.fill(index + 1)
      else
        this.#homeOf(buffer)
          .fill(buffer, index + 1)
          .synchronize()
    }
  }

  async play(): Promise<Observation> {
    const results: string[] = []
    for (const step of this.#program.steps) {
      const result = this.#step(step)
      results.push(typeof result === 'string' ? result : await result)
    }
    results.push(await this.#finish())
    const promises = await Promise.all(this.#promises)
    this.#checkOrder()
    return { results, promises, ran: this.#ran(), broken: this.#broken, bytes: this.#bytes() }
  }

  /** After this the bench is as it was. */
  close(): void {
    this.#openLatches()
    for (const { exec } of this.#execs) exec.close()
    for (const { graph } of this.#graphs) graph.close()
    for (const event of this.#events) event.close()
    for (const buffer of this.#buffers) buffer.close()
    for (const stream of this.#streams) stream.close()
    for (const handle of this.#foreign.splice(0)) this.#bench.destroyForeignStream(handle)
    this.#home.close()
  }

  #makeStream(index: number): Stream {
    const { origin, priority, device: on } = pick(this.#program.streams, index)
    const device = pick(this.#bench.devices, on)
    switch (origin) {
      case 'own':
      case 'ownBlocking':
        return new Stream({ device, priority, nonBlocking: origin === 'own' })
      case 'foreign':
      case 'foreignBlocking': {
        const handle = this.#bench.foreignStream(device, { priority, nonBlocking: origin === 'foreign' })
        this.#foreign.push(handle)
        return new ExternalStream(handle, { device })
      }
      case 'null':
        return device.defaultStream
      case 'wrappedNull':
        return new ExternalStream(0n, { device })
      case 'perThread':
        return device.run(() => Stream.perThread)
    }
  }

  #homeOf(buffer: DeviceBuffer | PinnedBuffer): Stream {
    return buffer.device === this.#home.device ? this.#home : buffer.device.defaultStream
  }

  #step(step: Step): string | Promise<string> {
    const rules = this.#rules
    switch (step.what) {
      case 'host':
        return this.#host(this.#s(step.stream))
      case 'callback':
        return this.#callback(this.#s(step.stream))
      case 'record':
        return this.#record(this.#s(step.stream), this.#e(step.event))
      case 'wait': {
        const [stream, event] = [this.#s(step.stream), this.#e(step.event)]
        return outcome(() => {
          this.#stream(stream).wait(this.#event(event))
          rules.wait(stream, event)
        })
      }
      case 'waitStream':
        return this.#waitStream(this.#s(step.stream), this.#s(step.other))
      case 'fill':
        return this.#fill(step)
      case 'copy':
        return this.#copy(step)
      case 'mix':
        return this.#mix(step)
      case 'latch':
        return this.#latch(this.#s(step.stream))
      case 'open':
        if (this.#latches.length === 0) return SKIPPED
        this.#open(pick(this.#latches, step.latch))
        return ''
      case 'queryStream': {
        const stream = this.#s(step.stream)
        return this.#query(() => this.#stream(stream).query(), rules.ofStream(stream))
      }
      case 'queryEvent': {
        const event = this.#e(step.event)
        return this.#query(() => this.#event(event).query(), rules.ofEvent(event))
      }
      case 'elapsed':
        return this.#elapsed(this.#e(step.event), this.#e(step.other))
      case 'finishedStream': {
        const stream = this.#s(step.stream)
        return this.#follow(this.#stream(stream).finished(), rules.mark(stream))
      }
      case 'finishedEvent': {
        const event = this.#e(step.event)
        return this.#follow(this.#event(event).finished(), rules.ofEvent(event) ?? 0n)
      }
      case 'synchronizeStream': {
        const stream = this.#s(step.stream)
        if (this.#inside === undefined)
          return this.#block(() => this.#stream(stream).synchronize(), rules.ofStream(stream))
        return stream === this.#inside ? outcome(() => this.#stream(stream).synchronize()) : SKIPPED
      }
      case 'synchronizeEvent': {
        const event = this.#e(step.event)
        return this.#block(() => this.#event(event).synchronize(), rules.ofEvent(event) ?? 0n)
      }
      case 'synchronizeDevice': {
        const device = step.device % this.#program.devices
        return this.#block(() => pick(this.#bench.devices, device).synchronize(), rules.ofDevice(device))
      }
      case 'awaitStream': {
        const stream = this.#s(step.stream)
        return this.#await(
          () => this.#stream(stream).finished(),
          () => rules.mark(stream),
        )
      }
      case 'awaitEvent': {
        const event = this.#e(step.event)
        return this.#await(
          () => this.#event(event).finished(),
          () => rules.ofEvent(event) ?? 0n,
        )
      }
      case 'turn':
        return this.#inside === undefined ? this.#turn() : SKIPPED
      case 'peek':
        return this.#peek(step.buffer % BUFFERS.length)
      case 'poke':
        return this.#poke(step.buffer % BUFFERS.length, step.at % CELLS, step.value)
      case 'begin': {
        const stream = this.#s(step.stream)
        if (this.#inside !== undefined) return SKIPPED
        return outcome(() => {
          this.#stream(stream).beginCapture(pick(MODES, step.mode))
          rules.begin(stream)
        })
      }
      case 'end':
        return this.#inside === undefined ? this.#end(this.#s(step.stream)) : SKIPPED
      case 'instantiate':
        return this.#instantiate(step.graph)
      case 'launch':
        return this.#launch(step)
      case 'update':
        return this.#update(step.exec, step.graph)
      case 'nodeCount':
        if (this.#graphs.length === 0) return SKIPPED
        return outcome(() => pick(this.#graphs, step.graph).graph.nodeCount)
      case 'isCapturing':
        return outcome(() => this.#stream(this.#s(step.stream)).isCapturing)
      case 'ask':
        return this.#ask(this.#stream(this.#s(step.stream)), step.about % 3)
      case 'closeStream': {
        const stream = this.#s(step.stream)
        if (rules.isCapturing(stream) || this.#inside !== undefined) return SKIPPED
        return outcome(() => this.#stream(stream).close())
      }
      case 'closeEvent':
        return outcome(() => this.#event(this.#e(step.event)).close())
      case 'closeBuffer': {
        const buffer = step.buffer % BUFFERS.length
        return this.#captured.has(buffer) ? SKIPPED : outcome(() => this.#buffer(buffer).close())
      }
      case 'closeGraph':
        if (this.#graphs.length === 0) return SKIPPED
        return outcome(() => pick(this.#graphs, step.graph).graph.close())
      case 'closeExec':
        if (this.#execs.length === 0) return SKIPPED
        return outcome(() => pick(this.#execs, step.exec).exec.close())
      case 'wrong': {
        const stream = this.#stream(this.#s(step.stream))
        const given = {
          device: stream.device,
          stream,
          event: this.#event(this.#e(step.event)),
          buffer: this.#buffer(step.buffer % BUFFERS.length),
        }
        return outcome(() => void pick(WRONG_CALLS, step.which)(given))
      }
      case 'inside':
        return this.#inside === undefined ? this.#runInside(step) : SKIPPED
    }
  }

  // What is queued.

  #host(stream: number): string {
    const label = this.#label()
    return outcome(() => {
      this.#stream(stream).launchHostFunc(() => this.#log(label))
      this.#rules.queue(stream, { label })
    })
  }

  #callback(stream: number): string {
    const label = this.#label()
    return outcome(() => {
      this.#stream(stream).addCallback((_, status) => {
        if (status !== 0) this.#broken.push(`${label} had status ${status}`)
        this.#log(label)
      }, undefined)
      this.#rules.queue(stream, { label })
    })
  }

  #record(stream: number, event: number): string {
    return outcome(() => {
      this.#stream(stream).record(this.#event(event))
      this.#rules.record(stream, event)
    })
  }

  #waitStream(stream: number, other: number): string {
    const result = outcome(() => {
      this.#stream(stream).wait(this.#stream(other))
      this.#rules.waitStream(stream, other)
    })
    // A record was made, though the wait was refused.
    if (result.startsWith('!CudaError') && !result.endsWith('906')) this.#rules.mark(other)
    return result
  }

  #fill(step: Extract<Step, { what: 'fill' }>): string {
    const stream = this.#s(step.stream)
    const index = step.buffer % BUFFERS.length
    const { at, cells } = rangeOf(step.at, step.at, step.cells)
    const width = pick(WIDTHS, step.width)
    if (!this.#isNear(stream, index)) return SKIPPED
    const work: Work = { accesses: accessesOf(index, at, cells, { read: false, write: true }) }
    return this.#withMemory(stream, [index], work, step.guarded, () => {
      const part = this.#buffer(index).slice(at * CELL_BYTES, cells * CELL_BYTES)
      this.#stream(stream).fill(part, step.value % 2 ** (8 * width), { width })
    })
  }

  #copy(step: Extract<Step, { what: 'copy' }>): string {
    const stream = this.#s(step.stream)
    const [to, from] = [step.buffer % BUFFERS.length, step.source % BUFFERS.length]
    const { at, from: start, cells } = rangeOf(step.at, step.from, step.cells)
    // Between two places of the host CUDA may copy at once, and wait for the stream.
    if (BUFFERS[to]?.pinned && BUFFERS[from]?.pinned && !(this.#rules.idle && !this.#rules.captures)) return SKIPPED
    if (!this.#isNear(stream, to) && !this.#isNear(stream, from)) return SKIPPED
    const work: Work = {
      accesses: [
        ...accessesOf(from, start, cells, { read: true, write: false }),
        ...accessesOf(to, at, cells, { read: false, write: true }),
      ],
      undefinedResult: to === from && Math.abs(at - start) < cells,
    }
    return this.#withMemory(stream, [to, from], work, step.guarded, () => {
      const target = this.#buffer(to).slice(at * CELL_BYTES, cells * CELL_BYTES)
      this.#stream(stream).copy(target, this.#buffer(from).slice(start * CELL_BYTES, cells * CELL_BYTES))
    })
  }

  #mix(step: Extract<Step, { what: 'mix' }>): string {
    const stream = this.#s(step.stream)
    const [to, from] = [step.buffer % BUFFERS.length, step.source % BUFFERS.length]
    const { at, from: start, cells } = rangeOf(step.at, step.from, step.cells)
    if (!this.#isNear(stream, to) || !this.#isNear(stream, from)) return SKIPPED
    const work: Work = {
      accesses: [
        ...accessesOf(from, start, cells, { read: true, write: false }),
        ...accessesOf(to, at, cells, { read: true, write: true }),
      ],
      undefinedResult: to === from && at !== start && Math.abs(at - start) < cells,
    }
    return this.#withMemory(stream, [to, from], work, step.guarded, () => {
      const target = this.#buffer(to).slice(at * CELL_BYTES, cells * CELL_BYTES)
      const source = this.#buffer(from).slice(start * CELL_BYTES, cells * CELL_BYTES)
      const block = (cells * CELL_BYTES) / 4
      this.#stream(stream).launch(mix, { grid: 1, block }, target, source, step.rounds)
    })
  }

  /** Queues what touches memory; guarded, it waits before for all that must not be overtaken. */
  #withMemory(stream: number, buffers: readonly number[], work: Work, guarded: number, queue: () => void): string {
    const guard = guarded === 1 ? this.#guard(stream, [work]) : ''
    const result = outcome(() => {
      queue()
      if (this.#rules.isCapturing(stream)) for (const buffer of buffers) this.#captured.add(buffer)
      this.#rules.queue(stream, work)
    })
    return guard + result
  }

  #guard(stream: number, works: readonly Work[]): string {
    if (this.#rules.isCapturing(stream)) return ''
    let results = ''
    for (const other of this.#rules.conflicts(stream, works)) {
      if (other >= 0 && !this.#stream(other).closed) results += this.#waitStream(stream, other)
    }
    return results
  }

  #latch(stream: number): string {
    if (this.#rules.captures || this.#inside !== undefined || this.#stream(stream).closed) return SKIPPED
    return outcome(() => {
      const latch = this.#bench.latch(this.#stream(stream))
      this.#latches.push({ latch, id: this.#rules.latch(stream) })
    })
  }

  #open({ latch, id }: Stands): void {
    latch.open()
    this.#rules.open(id)
  }

  #openLatches(): void {
    for (const stands of this.#latches) this.#open(stands)
  }

  // What is asked.

  #query(query: () => boolean, work: bigint | undefined): string {
    const certainty = work === undefined ? 'open' : this.#rules.certainty(work)
    const result = outcome(query)
    return certainty === 'open' && !result.startsWith('!') ? OPEN : result
  }

  #elapsed(start: number, end: number): string {
    const [from, to] = [this.#rules.ofEvent(start), this.#rules.ofEvent(end)]
    const certainties = [from, to].map((work) => (work === undefined ? 'open' : this.#rules.certainty(work)))
    const result = outcome(() => {
      const milliseconds = this.#event(end).elapsedSince(this.#event(start))
      const ordered = start === end
      return ordered ? milliseconds : Number.isFinite(milliseconds)
    })
    const depends = !result.startsWith('!') || result.endsWith(`${NOT_READY}`)
    if (!depends || certainties.includes('pending')) return result
    return certainties.includes('open') ? OPEN : result
  }

  #follow(promise: Promise<void>, work: bigint): string {
    const index = this.#promises.length
    const settled = promise.then(
      () => {
        if (this.#rules.isHeld(work)) this.#broken.push(`promise ${index} was too early`)
        return ''
      },
      (error: unknown) => errorText(error),
    )
    this.#promises.push(settled)
    return ''
  }

  #ask(stream: Stream, what: number): string {
    if (what === 0) return outcome(() => stream.priority)
    if (what === 1) return outcome(() => stream.nonBlocking)
    return outcome(() => stream.id > 0n)
  }

  #peek(index: number): string {
    const buffer = this.#buffer(index)
    if (!BUFFERS[index]?.pinned) return SKIPPED
    return outcome(() => this.#show((buffer as PinnedBuffer).bytes, index))
  }

  /** The bytes of a buffer, but for those that nothing forces. */
  #show(bytes: Uint8Array, index: number): string {
    const open = this.#rules.openCells(BUFFERS.length * CELLS)
    const cells = Array.from({ length: CELLS }, (_, at) => {
      const cell = index * CELLS + at
      if (open[cell] || !this.#rules.isQuiet(cell)) return OPEN
      return Buffer.from(bytes.subarray(at * CELL_BYTES, (at + 1) * CELL_BYTES)).toString('hex')
    })
    return cells.join(' ')
  }

  #poke(index: number, at: number, value: number): string {
    const cell = index * CELLS + at
    if (!BUFFERS[index]?.pinned || !this.#rules.isQuiet(cell)) return SKIPPED
    return outcome(() => {
      const { bytes } = this.#buffer(index) as PinnedBuffer
      bytes.fill(value, at * CELL_BYTES, (at + 1) * CELL_BYTES)
      this.#rules.poke(cell)
    })
  }

  // What waits.

  /** A latch that stood meanwhile would make this wait for ever. */
  #block(wait: () => void, work: bigint): string {
    if (this.#inside !== undefined) return SKIPPED
    this.#openLatches()
    this.#rules.yields()
    return outcome(() => {
      wait()
      this.#rules.waited(work)
      this.#checkRun()
    })
  }

  async #await(wait: () => Promise<void>, mark: () => bigint): Promise<string> {
    if (this.#inside !== undefined) return SKIPPED
    this.#openLatches()
    this.#rules.yields()
    try {
      const promise = wait()
      const work = mark()
      await promise
      this.#rules.waited(work)
      this.#checkRun()
      return ''
    } catch (error) {
      return errorText(error)
    }
  }

  async #turn(): Promise<string> {
    this.#rules.yields()
    for (let left = TURNS; left > 0; left -= 1) await turn()
    return ''
  }

  /** Lets all be done, so that nothing is open. False while a capture forbids it. */
  #drain(): boolean {
    if (this.#rules.captures) return false
    this.#openLatches()
    this.#rules.yields()
    for (const device of this.#bench.devices.slice(0, this.#program.devices)) device.synchronize()
    this.#rules.waited(this.#rules.ofEverything())
    this.#checkRun()
    return true
  }

  async #runInside(step: Inside): Promise<string> {
    const stream = this.#s(step.stream)
    if (!this.#drain()) return SKIPPED
    const results: string[] = []
    const label = this.#label()
    let id = -1
    const queued = outcome(() => {
      this.#stream(stream).launchHostFunc(() => {
        this.#log(label)
        this.#rules.enter(id)
        this.#inside = stream
        for (const inner of step.body) {
          const result = this.#step(inner)
          results.push(typeof result === 'string' ? result : 'asynchronous')
        }
        this.#inside = undefined
        this.#rules.leave(id)
      })
      id = this.#rules.queue(stream, { label })
    })
    if (id < 0) return queued
    const waited =
      step.how % 2 === 0
        ? outcome(() => this.#stream(stream).synchronize())
        : await this.#stream(stream)
            .finished()
            .then(() => '', errorText)
    this.#drain()
    return [queued, ...results, waited].join(' | ')
  }

  // Graphs.

  #end(stream: number): string {
    const began = this.#rules.beganCapture(stream)
    let graph: Graph | undefined
    const result = outcome(() => {
      graph = this.#stream(stream).endCapture()
    })
    if (!began) return result
    const captured = this.#rules.end(stream)
    if (graph !== undefined) this.#graphs.push({ graph, captured })
    return result
  }

  #instantiate(index: number): string {
    if (this.#inside !== undefined || this.#graphs.length === 0 || !this.#drain()) return SKIPPED
    const { graph, captured } = pick(this.#graphs, index)
    return outcome(() => {
      const exec = graph.instantiate()
      this.#execs.push({ exec, instance: { nodes: captured.nodes, last: 0n } })
    })
  }

  #launch(step: Extract<Step, { what: 'launch' }>): string {
    if (this.#execs.length === 0) return SKIPPED
    const stream = this.#s(step.stream)
    const { exec, instance } = pick(this.#execs, step.exec)
    const works = instance.nodes.map(({ work }) => work)
    const guard = step.guarded === 1 ? this.#guard(stream, works) : ''
    const result = outcome(() => {
      this.#stream(stream).launch(exec)
      this.#rules.launch(stream, instance)
    })
    return guard + result
  }

  #update(exec: number, graph: number): string {
    if (this.#inside !== undefined || this.#execs.length === 0 || this.#graphs.length === 0) return SKIPPED
    if (!this.#drain()) return SKIPPED
    const [to, from] = [pick(this.#execs, exec), pick(this.#graphs, graph)]
    return outcome(() => {
      to.exec.update(from.graph)
      to.instance.nodes = from.captured.nodes
    })
  }

  // The end.

  async #finish(): Promise<string> {
    this.#openLatches()
    this.#rules.yields()
    const ends = this.#streams.map((stream, index) => {
      return this.#rules.beganCapture(index) && !stream.closed ? this.#end(index) : ''
    })
    for (const stream of [...this.#streams, ...this.#streams]) {
      // Only where a driver does what the rules do not say.
      if (!stream.closed && outcome(() => stream.isCapturing) === 'true') outcome(() => stream.endCapture())
    }
    for (const device of this.#bench.devices.slice(0, this.#program.devices)) {
      if (this.#program.ending === 'blocking') device.synchronize()
      else await device.finished()
    }
    this.#rules.waited(this.#rules.ofEverything())
    this.#checkRun()
    return ends.join(' ').trim()
  }

  #bytes(): string[] {
    const device = this.#home.device
    using pinned = device.allocPinned(CELLS * CELL_BYTES)
    return this.#buffers.map((buffer, index) => {
      if (buffer.closed) return 'closed'
      if (BUFFERS[index]?.pinned) return this.#show((buffer as PinnedBuffer).bytes, index)
      this.#homeOf(buffer).copy(pinned, buffer).synchronize()
      return this.#show(pinned.bytes, index)
    })
  }

  #log(label: string): void {
    const runs = (this.#runs.get(label) ?? 0) + 1
    this.#runs.set(label, runs)
    this.#order.push(label)
    const ids = this.#rules.hostFunctions().get(label) ?? []
    if (runs > ids.length) this.#broken.push(`${label} ran ${runs} times, and was queued ${ids.length} times`)
    else if (ids.every((id) => this.#rules.isHeld(this.#rules.upToOf(id)))) this.#broken.push(`${label} ran too early`)
  }
  readonly #order: string[] = []

  /** Whatever the host has waited for has run. */
  #checkRun(): void {
    for (const label of this.#rules.hostFunctions().keys()) {
      const [must, did] = [this.#rules.mustHaveRun(label), this.#runs.get(label) ?? 0]
      if (did < must) this.#broken.push(`${label} should have run ${must} times, and did ${did} times`)
    }
  }

  /** Host functions ran in each order that is forced. */
  #checkOrder(): void {
    const places = new Map<number, number>()
    for (const [label, ids] of this.#rules.hostFunctions()) {
      // Which of them a run was can be told where they are in order among themselves.
      if (ids.some((id, index) => index > 0 && !this.#rules.isOrdered(ids[index - 1] ?? -1, id))) continue
      let from = 0
      for (const id of ids) {
        const place = this.#order.indexOf(label, from)
        if (place < 0) break
        places.set(id, place)
        from = place + 1
      }
    }
    for (const [first, one] of places) {
      for (const [second, two] of places) {
        if (first !== second && this.#rules.isOrdered(first, second) && two < one) {
          this.#broken.push(`${this.#order[two]} ran before ${this.#order[one]}`)
        }
      }
    }
  }

  #ran(): string {
    const often = [...this.#runs].filter(([, runs]) => runs !== 1).map(([label, runs]) => `${label}:${runs}`)
    return [this.#runs.size, ...often.sort()].join(' ')
  }

  #label(): string {
    this.#nextLabel += 1
    return `h${this.#nextLabel}`
  }

  // Numbers to things.

  #s(index: number): number {
    return index % this.#program.streams.length
  }

  #e(index: number): number {
    return index % this.#program.events.length
  }

  #stream(index: number): Stream {
    return pick(this.#streams, index)
  }

  #event(index: number): Event {
    return pick(this.#events, index)
  }

  #buffer(index: number): DeviceBuffer | PinnedBuffer {
    return pick(this.#buffers, index)
  }

  /** Can work of this stream reach that buffer for sure? */
  #isNear(stream: number, buffer: number): boolean {
    return BUFFERS[buffer]?.pinned === true || this.#buffer(buffer).device === this.#stream(stream).device
  }
}

function rangeOf(at: number, from: number, cells: number): { at: number; from: number; cells: number } {
  const [to, start] = [at % CELLS, from % CELLS]
  return { at: to, from: start, cells: 1 + (cells % (CELLS - Math.max(to, start))) }
}

/** What a call returned, or threw. */
function outcome(call: () => unknown): string {
  try {
    const value = call()
    return value === undefined ? '' : String(value)
  } catch (error) {
    return errorText(error)
  }
}

/** An error by its class, code and number: messages are for people. */
function errorText(error: unknown): string {
  if (!(error instanceof Error)) return `!${String(error)}`
  const code: unknown = Reflect.get(error, 'code')
  const number: unknown = Reflect.get(error, 'number')
  if (code === undefined) return `!${error.name} ${error.message}`
  return `!${error.name} ${String(code)}${number === undefined ? '' : ` ${String(number)}`}`
}
