/** The steps of a program that touch memory. */

import { DeviceBuffer } from 'cuda-streams'
import { fromDLPack, toDLPack } from 'cuda-streams/dlpack'
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

/** What a node of a graph is to do. */
export interface NodeParts {
  readonly cells: number
  readonly to: () => Memory
  /** From now on a graph does this. */
  readonly work: () => Work
}

export class MemorySteps {
  readonly #stage: Stage
  readonly #rules: Rules
  readonly #wait: (stream: number, other: number) => string
  readonly #edition: Edition
  /** Buffers that a graph uses, or that were lent. */
  readonly #kept = new Set<number>()
  /** The first cells of buffers that were allocated again. */
  readonly #first = new Map<number, number>()

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
    const work: Work = { accesses: accessesOf(this.#cell(buffer, at), cells, { read: false, write: true }) }
    return this.#queue(stream, [buffer], work, guarded, () => {
      this.#stage.stream(stream).fill(this.#part(buffer, at, cells), value % 2 ** (8 * width), { width })
    })
  }

  copy({ stream, buffer, at: to, source, from: start, cells: count, guarded }: StepOf<'copy'>): string {
    const { at, from, cells } = cellsOf(to, start, count)
    const onHost = this.#isWithinHost(buffer, source)
    if (this.#edition === 1 && onHost && (!this.#rules.idle || this.#rules.captures)) return SKIPPED
    if (!this.#reaches(stream, buffer) && !this.#reaches(stream, source)) return SKIPPED
    const work: Work = {
      accesses: [
        ...accessesOf(this.#cell(source, from), cells, { read: true, write: false }),
        ...accessesOf(this.#cell(buffer, at), cells, { read: false, write: true }),
      ],
      node: onHost ? 'host' : undefined,
    }
    return this.#queue(stream, [buffer, source], work, guarded, () => {
      this.#stage.stream(stream).copy(this.#part(buffer, at, cells), this.#part(source, from, cells))
    })
  }

  /** Rows of any length, with gaps or without, of which the last may be outside. */
  copyRows(step: StepOf<'copyRows'>): string {
    const { stream, buffer, at, source, from, guarded } = step
    const { shape, destinationStrides, sourceStrides } = rowsOf(step)
    const [to, by] = [destinationStrides, sourceStrides].map((strides) => touched(shape, strides))
    const work: Work = {
      accesses: [
        ...cellsIn(by ?? [], this.#cell(source, from), CELLS - from).map((cell) => ({
          cell,
          read: true,
          write: false,
        })),
        // The bytes between the rows stay.
        ...cellsIn(to ?? [], this.#cell(buffer, at), CELLS - at).map((cell) => ({ cell, read: true, write: true })),
      ],
      node: this.#isWithinHost(buffer, source) ? 'host' : 'rows',
    }
    return this.#queue(stream, [buffer, source], work, guarded, () => {
      const [end, begin] = [this.#part(buffer, at, CELLS - at), this.#part(source, from, CELLS - from)]
      this.#stage.stream(stream).copy(end, begin, { shape, destinationStrides, sourceStrides })
    })
  }

  /** Up to three rows, with gaps or without, of which the last may be outside; some are no whole number of values. */
  fillRows({ stream, buffer, at, rows, bytes: length, gap, width: index, value, guarded }: StepOf<'fillRows'>): string {
    if (!this.#reaches(stream, buffer)) return SKIPPED
    const [bytes, width] = [pick(ROW_BYTES, length), pick(WIDTHS, index)]
    const shape = [1 + (rows % 3), bytes] as const
    const strides = gap % 3 === 0 ? undefined : ([bytes + 4 * (gap % 3)] as const)
    const cells = cellsIn(touched(shape, strides), this.#cell(buffer, at), CELLS - at)
    const isDense = strides === undefined || shape[0] === 1
    const work: Work = {
      accesses: cells.map((cell) => ({ cell, read: true, write: true })),
      node: isDense ? undefined : 'rows',
    }
    return this.#queue(stream, [buffer], work, guarded, () => {
      const part = this.#part(buffer, at, CELLS - at)
      this.#stage.stream(stream).fill(part, value % 2 ** (8 * width), { width, shape, strides })
    })
  }

  /** Two copies of one cell in one call. */
  copyAll(step: StepOf<'copyAll'>): string {
    const { stream, guarded } = step
    const pairs = [
      { buffer: step.buffer, at: step.at, source: step.source, from: step.from },
      { buffer: step.buffer2, at: step.at2, source: step.source2, from: step.from2 },
    ]
    const works = pairs.map(
      ({ buffer, at, source, from }): Work => ({
        accesses: [
          ...accessesOf(this.#cell(source, from), 1, { read: true, write: false }),
          ...accessesOf(this.#cell(buffer, at), 1, { read: false, write: true }),
        ],
        node: this.#isWithinHost(buffer, source) ? 'host' : undefined,
      }),
    )
    const buffers = pairs.flatMap(({ buffer, source }) => [buffer, source])
    return this.#queueAll(stream, buffers, works, guarded, () => {
      const parts = pairs.map(
        ({ buffer, at, source, from }) => [this.#part(buffer, at, 1), this.#part(source, from, 1)] as const,
      )
      this.#stage.stream(stream).copy(parts)
    })
  }

  /** Handed out and taken in again, as by another library, which fills it. */
  lend({ stream, buffer, at: start, cells: count, value, guarded }: StepOf<'lend'>): string {
    if (this.#stage.pinned(buffer) !== undefined) return SKIPPED
    const { at, cells } = cellsOf(start, start, count)
    const work: Work = { accesses: accessesOf(this.#cell(buffer, at), cells, { read: false, write: true }) }
    return this.#queue(stream, [buffer], work, guarded, () => {
      // It is given back when the driver says that the work is done.
      this.#kept.add(buffer)
      const consumer = this.#stage.stream(stream)
      const lent = toDLPack(this.#part(buffer, at, cells), {
        dtype: 'u8',
        shape: [cells * CELL_BYTES],
        stream: consumer,
      })
      const tensor = fromDLPack(lent, { stream: consumer })
      try {
        consumer.fill(tensor.buffer, value % 256)
      } finally {
        tensor.buffer.close()
      }
    })
  }

  /** Another library fills it. That this was called, though the stream takes no work, shows in the result. */
  external({ stream, buffer, at: start, cells: count, value, guarded }: StepOf<'external'>): string {
    if (this.#stage.pinned(buffer) !== undefined || !this.#stage.isNear(stream, buffer)) return SKIPPED
    const { at, cells } = cellsOf(start, start, count)
    const accesses = accessesOf(this.#cell(buffer, at), cells, { read: false, write: true })
    return this.#queue(stream, [buffer], { accesses, node: 'external' }, guarded, () => {
      const part = this.#part(buffer, at, cells)
      if (!(part instanceof DeviceBuffer)) return
      const memory = [{ buffer: part, access: 'out' as const }]
      const simulate = ([bytes]: readonly Uint8Array[]): void => void bytes?.fill(value % 256)
      this.#stage.stream(stream).external({ name: 'foreign fill', memory, simulate }, (handle) => {
        const result = this.#stage.bench.foreignFill(handle, part, value % 256)
        if (result !== 0) throw new Error(`called, and refused with ${result}`)
      })
    })
  }

  /** No bytes at all. */
  nothing({ stream, buffer, call }: StepOf<'nothing'>, follow: Follow): string {
    return outcome(() => {
      const target = this.#stage.stream(stream)
      const none = this.#stage.buffer(buffer).subarray(CELL_BYTES, CELL_BYTES)
      if (call === 0) target.fill(none, 1)
      else if (call === 1) target.copy(none, this.#stage.buffer(buffer).subarray(0, 0))
      else if (call === 2) target.fill(none, 3, { width: 4 })
      else follow(call === 3 ? target.upload(none, new Uint8Array(0)) : target.download(none), 0n)
      if (!this.#rules.isCapturing(stream)) this.#rules.queueNothing(stream)
    })
  }

  /** The buffer is closed, and another one takes its place, which no host function writes before it is there. */
  renew({ buffer, stream, pool }: StepOf<'renewBuffer'>): string {
    if (this.#stage.pinned(buffer) !== undefined) return SKIPPED
    return outcome(() => {
      this.#stage.renewBuffer(buffer, stream, pool, this.#freesSurely(buffer))
      this.#first.set(buffer, this.#rules.extraCells(CELLS))
      this.#kept.delete(buffer)
      const accesses = accessesOf(this.#cell(buffer, 0), CELLS, { read: false, write: true })
      this.#rules.allocate(stream, { accesses, undefinedResult: true })
    })
  }

  /** Is the memory freed as soon as the buffer is closed? Graphs keep what they use; and what captures frees nothing. */
  #freesSurely(buffer: number): boolean {
    return !this.#kept.has(buffer) && !this.#rules.captures
  }

  #isWithinHost(buffer: number, source: number): boolean {
    return this.#stage.pinned(buffer) !== undefined && this.#stage.pinned(source) !== undefined
  }

  #cell(buffer: number, at: number): number {
    return (this.#first.get(buffer) ?? buffer * CELLS) + at
  }

  mix({ stream, buffer, at: to, source, from: start, cells: count, rounds, guarded }: StepOf<'mix'>): string {
    const { at, from, cells } = cellsOf(to, start, count)
    if (!this.#reaches(stream, buffer) || !this.#reaches(stream, source)) return SKIPPED
    const work: Work = {
      accesses: [
        ...accessesOf(this.#cell(source, from), cells, { read: true, write: false }),
        ...accessesOf(this.#cell(buffer, at), cells, { read: true, write: true }),
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
    const work: Work = { accesses: accessesOf(this.#cell(buffer, at), cells, { read: false, write: true }) }
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
    const reads = accessesOf(this.#cell(buffer, at), cells, { read: true, write: false })
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
        ...accessesOf(this.#cell(buffer, at), cells, { read: true, write: false }),
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

  /** A fill for a node of a graph. */
  fillOf({ buffer, at: start, cells: count }: Pick<StepOf<'updateFill'>, 'buffer' | 'at' | 'cells'>): NodeParts {
    const { at, cells } = cellsOf(start, start, count)
    const work: Work = { accesses: accessesOf(this.#cell(buffer, at), cells, { read: false, write: true }) }
    return { cells, to: () => this.#part(buffer, at, cells), work: () => this.#captures([buffer], work) }
  }

  /** A copy for a node of a graph, or a kernel, which reads what it writes. */
  copyOf(step: StepOf<'updateCopy'> | StepOf<'updateKernel'>): NodeParts & { readonly from: () => Memory } {
    const { buffer, source, what } = step
    const { at, from, cells } = cellsOf(step.at, step.from, step.cells)
    const isKernel = what === 'updateKernel'
    const work: Work = {
      accesses: [
        ...accessesOf(this.#cell(source, from), cells, { read: true, write: false }),
        ...accessesOf(this.#cell(buffer, at), cells, { read: isKernel, write: true }),
      ],
      undefinedResult: isKernel && buffer === source && at !== from && Math.abs(at - from) < cells,
    }
    return {
      cells,
      to: () => this.#part(buffer, at, cells),
      from: () => this.#part(source, from, cells),
      work: () => this.#captures([buffer, source], work),
    }
  }

  #captures(buffers: readonly number[], work: Work): Work {
    for (const buffer of buffers) this.#kept.add(buffer)
    return work
  }

  peek(index: number): string {
    const buffer = this.#stage.pinned(index)
    return buffer === undefined ? SKIPPED : outcome(() => this.#show(buffer.bytes, index))
  }

  poke(index: number, at: number, value: number): string {
    const buffer = this.#stage.pinned(index)
    const cell = this.#cell(index, at)
    if (buffer === undefined || !this.#rules.isQuiet(cell)) return SKIPPED
    return outcome(() => {
      buffer.bytes.fill(value, at * CELL_BYTES, (at + 1) * CELL_BYTES)
      this.#rules.poke(cell)
    })
  }

  close(index: number): string {
    const mustStay = this.#edition < 3 && this.#kept.has(index)
    return mustStay ? SKIPPED : outcome(() => this.#stage.closeBuffer(index, this.#freesSurely(index)))
  }

  /** What every buffer holds in the end. */
  contents(): string[] {
    return this.#stage.contents().map((bytes, index) => (bytes === undefined ? 'closed' : this.#show(bytes, index)))
  }

  /** The bytes of a buffer, but for those that nothing forces. */
  #show(bytes: Uint8Array, index: number): string {
    const open = this.#rules.openCells()
    const cells = Array.from({ length: CELLS }, (_, at) => {
      const cell = this.#cell(index, at)
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
    return this.#queueAll(stream, buffers, [work], guarded, queue)
  }

  #queueAll(
    stream: number,
    buffers: readonly number[],
    works: readonly Work[],
    guarded: number,
    queue: () => void,
  ): string {
    const guard = guarded === 1 ? this.guard(stream, works) : ''
    const captures = this.#rules.isCapturing(stream)
    const result = outcome(queue)
    if (isError(result)) return guard + result
    if (captures) for (const buffer of buffers) this.#kept.add(buffer)
    for (const work of works) this.#rules.queue(stream, work)
    return guard + result
  }

  #part(buffer: number, at: number, cells: number): Memory {
    return this.#stage.buffer(buffer).subarray(at * CELL_BYTES, at * CELL_BYTES + cells * CELL_BYTES)
  }
}

type Shape = readonly [rows: number, bytes: number] | readonly [planes: number, rows: number, bytes: number]

const ROW_BYTES = [4, 8, 16, 5] as const

interface Rows {
  readonly shape: Shape
  readonly destinationStrides: readonly number[] | undefined
  readonly sourceStrides: readonly number[] | undefined
}

type Spans = readonly (readonly [number, number])[]

/** Up to two planes of up to three rows; the gaps are in one end, in both, or in none. */
function rowsOf(step: StepOf<'copyRows'>): Rows {
  const bytes = pick(ROW_BYTES, step.bytes)
  const [planes, rows] = [step.planes % 3, 1 + (step.rows % 3)]
  const shape: Shape = planes === 0 ? [rows, bytes] : [planes, rows, bytes]
  const strides = (gap: number): readonly number[] | undefined => {
    if (gap === 0) return undefined
    const distance = bytes + 3 * gap
    return planes === 0 ? [distance] : [rows * distance, distance]
  }
  return { shape, destinationStrides: strides(step.gap % 3), sourceStrides: strides((step.gap >> 2) % 3) }
}

/** The first bytes of rows, and the bytes behind their last. */
function touched(shape: Shape, strides: readonly number[] | undefined): (readonly [number, number])[] {
  const [bytes, rows, planes = 1] = [...shape].reverse() as [number, number, number?]
  const [row = bytes, plane = rows * row] = [...(strides ?? [])].reverse()
  return Array.from({ length: planes * rows }, (_, index) => {
    const begin = Math.floor(index / rows) * plane + (index % rows) * row
    return [begin, begin + bytes] as const
  })
}

/** Those of the cells from the first on that rows touch; the buffer has so many. */
function cellsIn(rows: Spans, first: number, most: number): number[] {
  const cells = rows.flatMap(([begin, end]) => {
    const from = Math.floor(begin / CELL_BYTES)
    return Array.from({ length: Math.ceil(end / CELL_BYTES) - from }, (_, index) => first + from + index)
  })
  return [...new Set(cells)].filter((cell) => cell < first + most)
}

function cellsOf(at: number, from: number, cells: number): Cells {
  return { at, from, cells: 1 + (cells % (CELLS - Math.max(at, from))) }
}
