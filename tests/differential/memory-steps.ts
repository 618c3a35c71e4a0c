/** The steps of a program that touch memory. */
import { mix } from './kernel.js'
import { errorText, isError, OPEN, outcome, SKIPPED } from './outcome.js'
import type { Rules } from './rules.js'
import type { Memory, Stage } from './stage.js'
import { CELL_BYTES, CELLS, type Edition, pick, type Step } from './steps.js'
import { accessesOf, type Work } from './work.js'

export const WIDTHS = [1, 2, 4] as const

/** `told` says what the promise was fulfilled with, when all is done. */
type Follow = (promise: Promise<unknown>, work: bigint, told?: () => string) => void
type StepOf<W extends Step['what']> = Extract<Step, { what: W }>

/** The same cells of two buffers, of which they may be at different places. */
interface Cells {
  readonly at: number
  readonly from: number
  readonly cells: number
}

export class MemorySteps {
  readonly #stage: Stage
  readonly #rules: Rules
  readonly #wait: (stream: number, other: number) => string
  readonly #edition: Edition
  /** Buffers that a graph uses. */
  readonly #captured = new Set<number>()

  /** `wait` lets a stream wait for another. */
  constructor(stage: Stage, rules: Rules, edition: Edition, wait: (stream: number, other: number) => string) {
    this.#stage = stage
    this.#edition = edition
    this.#rules = rules
    this.#wait = wait
  }

  fill({ stream, buffer, at: start, cells: count, width: index, value, guarded }: StepOf<'fill'>): string {
    if (!this.#reaches(stream, buffer)) return SKIPPED
    const { at, cells } = cellsOf(start, start, count)
    const width = pick(WIDTHS, index)
    const work: Work = { accesses: accessesOf(buffer, at, cells, { read: false, write: true }) }
    return this.#queue(stream, [buffer], work, guarded, () => {
      this.#stage.stream(stream).fill(this.#part(buffer, at, cells), value % 2 ** (8 * width), { width })
    })
  }

  copy({ stream, buffer, at: to, source, from: start, cells: count, guarded }: StepOf<'copy'>): string {
    const { at, from, cells } = cellsOf(to, start, count)
    const onHost = this.#stage.pinned(buffer) !== undefined && this.#stage.pinned(source) !== undefined
    if (this.#edition === 1 && onHost && (!this.#rules.idle || this.#rules.captures)) return SKIPPED
    if (!this.#reaches(stream, buffer) && !this.#reaches(stream, source)) return SKIPPED
    const work: Work = {
      accesses: [
        ...accessesOf(source, from, cells, { read: true, write: false }),
        ...accessesOf(buffer, at, cells, { read: false, write: true }),
      ],
      undefinedResult: buffer === source && Math.abs(at - from) < cells,
    }
    return this.#queue(stream, [buffer, source], work, guarded, () => {
      this.#stage.stream(stream).copy(this.#part(buffer, at, cells), this.#part(source, from, cells))
    })
  }

  mix({ stream, buffer, at: to, source, from: start, cells: count, rounds, guarded }: StepOf<'mix'>): string {
    const { at, from, cells } = cellsOf(to, start, count)
    if (!this.#reaches(stream, buffer) || !this.#reaches(stream, source)) return SKIPPED
    const work: Work = {
      accesses: [
        ...accessesOf(source, from, cells, { read: true, write: false }),
        ...accessesOf(buffer, at, cells, { read: true, write: true }),
      ],
      undefinedResult: buffer === source && at !== from && Math.abs(at - from) < cells,
    }
    return this.#queue(stream, [buffer, source], work, guarded, () => {
      const [to, by] = [this.#part(buffer, at, cells), this.#part(source, from, cells)]
      this.#stage.stream(stream).launch(mix, { grid: 1, block: (cells * CELL_BYTES) / 4 }, to, by, rounds)
    })
  }

  upload({ stream, buffer, at: start, cells: count, value, guarded }: StepOf<'upload'>, follow: Follow): string {
    if (!this.#reaches(stream, buffer)) return SKIPPED
    const { at, cells } = cellsOf(start, start, count)
    const work: Work = { accesses: accessesOf(buffer, at, cells, { read: false, write: true }) }
    return this.#queue(stream, [buffer], work, guarded, () => {
      const bytes = Uint8Array.from({ length: cells * CELL_BYTES }, (_, index) => value + index)
      follow(this.#stage.stream(stream).upload(this.#part(buffer, at, cells), bytes), 0n)
    })
  }

  /** What it brings is told when all is done: whether something races with it is known only then. */
  downloadLater({ stream, buffer, at: start, cells: count, guarded }: StepOf<'download'>, follow: Follow): string {
    const rules = this.#rules
    const { at, cells } = cellsOf(start, start, count)
    const extra = rules.extraCells(1)
    const reads = accessesOf(buffer, at, cells, { read: true, write: false })
    const work: Work = { accesses: [...reads, { cell: extra, read: false, write: true }] }
    const guard = guarded === 1 ? this.guard(stream, [work]) : ''
    const result = outcome(() => {
      let bytes: Uint8Array | undefined
      const target = this.#stage.stream(stream)
      const promise = target.download(this.#part(buffer, at, cells)).then((found) => {
        bytes = found
      })
      const isRefused = target.closed || rules.isCapturing(stream) || rules.isForbidden(stream)
      const id = isRefused ? -1 : rules.queue(stream, work)
      const told = (): string => (rules.openCells()[extra] ? OPEN : Buffer.from(bytes ?? []).toString('hex'))
      follow(promise, rules.upTo(id), told)
    })
    return guard + result
  }

  /** As in the first edition: with nothing else under way, and waited for at once. */
  async download({ stream, buffer, at: start, cells: count, guarded }: StepOf<'download'>): Promise<string> {
    if (!this.#reaches(stream, buffer)) return SKIPPED
    const { at, cells } = cellsOf(start, start, count)
    const extra = this.#rules.extraCells(1)
    const work: Work = {
      accesses: [
        ...accessesOf(buffer, at, cells, { read: true, write: false }),
        { cell: extra, read: false, write: true },
      ],
    }
    const guard = guarded === 1 ? this.guard(stream, [work]) : ''
    try {
      const promise = this.#stage.stream(stream).download(this.#part(buffer, at, cells))
      if (!this.#rules.isCapturing(stream)) this.#rules.queue(stream, work)
      const bytes = await promise
      this.#rules.waited(this.#rules.ofStream(stream))
      return guard + (this.#rules.openCells()[extra] ? OPEN : Buffer.from(bytes).toString('hex'))
    } catch (error) {
      return guard + errorText(error)
    }
  }

  /** Lets the stream wait for all that this work must not overtake. */
  guard(stream: number, works: readonly Work[]): string {
    if (this.#rules.isCapturing(stream)) return ''
    const others = this.#rules.conflicts(stream, works).filter((other) => !this.#stage.stream(other).closed)
    return others.map((other) => this.#wait(stream, other)).join('')
  }

  /** Part of a buffer for a node of a graph, with what the node does there. */
  partOf(buffer: number, start: number, count: number): { readonly part: () => Memory; readonly work: Work } {
    const { at, cells } = cellsOf(start, start, count)
    const work: Work = { accesses: accessesOf(buffer, at, cells, { read: false, write: true }) }
    return { part: () => this.#part(buffer, at, cells), work }
  }

  peek(index: number): string {
    const buffer = this.#stage.pinned(index)
    return buffer === undefined ? SKIPPED : outcome(() => this.#show(buffer.bytes, index))
  }

  poke(index: number, at: number, value: number): string {
    const buffer = this.#stage.pinned(index)
    const cell = index * CELLS + at
    if (buffer === undefined || !this.#rules.isQuiet(cell)) return SKIPPED
    return outcome(() => {
      buffer.bytes.fill(value, at * CELL_BYTES, (at + 1) * CELL_BYTES)
      this.#rules.poke(cell)
    })
  }

  close(index: number): string {
    const mustStay = this.#edition < 3 && this.#captured.has(index)
    return mustStay ? SKIPPED : outcome(() => this.#stage.buffer(index).close())
  }

  /** What every buffer holds in the end. */
  contents(): string[] {
    return this.#stage.contents().map((bytes, index) => (bytes === undefined ? 'closed' : this.#show(bytes, index)))
  }

  /** The bytes of a buffer, but for those that nothing forces. */
  #show(bytes: Uint8Array, index: number): string {
    const open = this.#rules.openCells()
    const cells = Array.from({ length: CELLS }, (_, at) => {
      const cell = index * CELLS + at
      if (open[cell] || !this.#rules.isQuiet(cell)) return OPEN
      return Buffer.from(bytes.subarray(at * CELL_BYTES, (at + 1) * CELL_BYTES)).toString('hex')
    })
    return cells.join(' ')
  }

  /** The simulator's devices reach each other's memory, and so do those that this is held against: batch.ts sees to it. */
  #reaches(stream: number, buffer: number): boolean {
    return this.#edition > 1 || this.#stage.isNear(stream, buffer)
  }

  #queue(stream: number, buffers: readonly number[], work: Work, guarded: number, queue: () => void): string {
    const guard = guarded === 1 ? this.guard(stream, [work]) : ''
    const captures = this.#rules.isCapturing(stream)
    const result = outcome(queue)
    if (isError(result)) return guard + result
    if (captures) for (const buffer of buffers) this.#captured.add(buffer)
    this.#rules.queue(stream, work)
    return guard + result
  }

  #part(buffer: number, at: number, cells: number): Memory {
    return this.#stage.buffer(buffer).slice(at * CELL_BYTES, cells * CELL_BYTES)
  }
}

function cellsOf(at: number, from: number, cells: number): Cells {
  return { at, from, cells: 1 + (cells % (CELLS - Math.max(at, from))) }
}
