/**
 * One tensor through two libraries, with nothing but stream handles between them. PyTorch multiplies matrices on its
 * own stream, `t`, into c; other code copies c to d on a stream of ours; PyTorch doubles d into e, on `t` again. The
 * host waits for nothing in between: only the two waits between the streams keep the three steps in order.
 *
 * Every number in it is exact in bfloat16, so a round is either right everywhere or the order was broken.
 */
import { ExternalStream, Stream } from 'cuda-streams'
import type { Python } from 'cuda-streams/python'
import { type Held, type Hold, holdOn } from '../hold.js'
import { gpuUnavailable } from '../python/gpu.js'
import { RawCuda } from './raw-cuda.js'

export interface StoryOptions {
  /** Rows and columns of every matrix; a power of two. 8192 makes 128 MiB each. */
  readonly size?: number
  /** How many multiplications the first step takes; only the last one writes c. */
  readonly matmuls?: number
  readonly log?: (line: string) => void
}

/** Which of the two waits a case makes. */
export interface Waits {
  /** Our copy waits for PyTorch's multiplications. */
  readonly first: boolean
  /** PyTorch's doubling waits for our copy. */
  readonly second: boolean
}

export interface CaseResult {
  readonly rounds: number
  /** Rounds in which every element of e had the right value. */
  readonly right: number
  readonly wrong: number
  /** From the first call of a round until its last work was done, summed; checking is not counted. */
  readonly milliseconds: number
}

export interface OrderResult {
  readonly rounds: number
  /** Round numbers, as host functions on PyTorch's stream came to run. */
  readonly hostFunctions: readonly number[]
  /** Round numbers, as `finished()` of our stream resolved. */
  readonly finished: readonly number[]
  /** Whether e was right everywhere after the last round. */
  readonly right: boolean
  readonly milliseconds: number
}

const BYTES = 2
/** Twice -1 in bfloat16. */
const POISON = 0xbf80bf80
/**
 * Behind a host function, which holds up its stream until JavaScript has run it, the driver takes about a thousand
 * operations before it blocks whoever queues the next. If that is PyTorch, nobody is left to run the host function.
 */
const ROUNDS_IN_FLIGHT = 24
const ORDER_MATMULS = 4

const PYTHON = `
  import torch

  class Story:
      def __init__(self, size):
          self.t = torch.cuda.Stream()
          self.size = size
          new = lambda value: torch.full((size, size), value, dtype=torch.bfloat16, device='cuda')
          with torch.cuda.stream(self.t):
              self.a, self.b, self.scratch = new(1), new(0), new(0)
              self.c, self.d, self.e = new(-1), new(-1), new(-1)
          self.t.synchronize()

      def set(self, value):
          with torch.cuda.stream(self.t):
              self.b.fill_(value)

      def first(self, matmuls):
          with torch.cuda.stream(self.t):
              for _ in range(matmuls - 1):
                  torch.matmul(self.a, self.b, out=self.scratch)
              torch.matmul(self.a, self.b, out=self.c)

      def second(self):
          with torch.cuda.stream(self.t):
              torch.mul(self.d, 2, out=self.e)

      def check(self, expected):
          with torch.cuda.stream(self.t):
              return {'right': (self.e == expected).sum().item(), 'sample': self.e[-1, -1].item()}
`

/** Why the story cannot be told on this machine; undefined if it can. Imports torch. */
export function storyUnavailable(python: Python): string | undefined {
  try {
    python.run('import torch')
  } catch (error) {
    return `torch cannot be imported: ${lastLine(error)}`
  }
  if (!python.evaluate('torch.cuda.is_available()').boolean())
    return `torch ${python.evaluate('torch.__version__').text()} sees no GPU`
  return gpuUnavailable()
}

function lastLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.trimEnd().split('\n').at(-1) ?? ''
}

/** The value that round number `round` multiplies with, and what e must be in the end: another in each of 7 rounds. */
function valuesOf(round: number, size: number): { factor: number; expected: number } {
  const factor = ((round % 7) + 1) / 8
  return { factor, expected: size * factor * 2 }
}

export class Story {
  /** PyTorch's stream, as this library sees it. */
  readonly wrapped: ExternalStream
  readonly ours: Stream
  readonly #python: Python
  readonly #raw: RawCuda
  readonly #size: number
  readonly #matmuls: number
  readonly #hold: Hold
  readonly #log: (line: string) => void
  readonly #pointers: { readonly c: bigint; readonly d: bigint; readonly e: bigint }

  constructor(python: Python, options: StoryOptions = {}) {
    this.#python = python
    this.#size = options.size ?? 8192
    this.#matmuls = options.matmuls ?? 12
    this.#log = options.log ?? (() => undefined)
    if (!Number.isInteger(Math.log2(this.#size))) throw new RangeError(`size must be a power of two, not ${this.#size}`)

    python.run(PYTHON)
    python.run(`story = Story(${this.#size})`)
    // The handle is all that this library gets to know; which device it belongs to, the driver says.
    this.wrapped = new ExternalStream(python.evaluate('story.t.cuda_stream').bigint())
    const ordinal = python.evaluate('story.t.device.index').number()
    if (this.wrapped.device.ordinal !== ordinal) {
      throw new Error(`PyTorch's stream is on device ${ordinal}, but wrapped it says ${this.wrapped.device.ordinal}`)
    }
    this.ours = new Stream({ device: this.wrapped.device })
    this.#hold = holdOn(this.wrapped.device)
    this.#raw = new RawCuda(ordinal)
    const pointer = (name: string) => python.evaluate(`story.${name}.data_ptr()`).bigint()
    this.#pointers = { c: pointer('c'), d: pointer('d'), e: pointer('e') }
    this.#log(
      `torch ${python.evaluate('torch.__version__').text()} on ${python.evaluate('torch.cuda.get_device_name()').text()}, ` +
        `its stream 0x${this.wrapped.handle.toString(16)} wrapped on device ${ordinal}, ours is 0x${this.ours.handle.toString(16)}`,
    )
  }

  /** Loads every kernel that will be needed: CUDA loads them at first use, and may stop all streams for it. */
  async warmUp(): Promise<void> {
    await this.#round(0, { first: true, second: true })
    this.#right(0)
  }

  /** Both waits: every round must be right. */
  withWaits(rounds: number): Promise<CaseResult> {
    return this.#case('both waits', rounds, { first: true, second: true })
  }

  /** Our copy does not wait for PyTorch, which is held until the copy is done: every round must be wrong. */
  withoutFirstWait(rounds: number): Promise<CaseResult> {
    return this.#case('no first wait', rounds, { first: false, second: true })
  }

  /** PyTorch does not wait for our copy, which is held until PyTorch is done: every round must be wrong. */
  withoutSecondWait(rounds: number): Promise<CaseResult> {
    return this.#case('no second wait', rounds, { first: true, second: false })
  }

  /** Many rounds queued at once; host functions on PyTorch's own stream and `finished()` of ours must keep their order. */
  async order(rounds: number): Promise<OrderResult> {
    const hostFunctions: number[] = []
    const finished: number[] = []
    let pending: Promise<void>[] = []
    const start = performance.now()
    for (let round = 0; round < rounds; round++) {
      this.#python.run(`story.set(${valuesOf(round, this.#size).factor})`)
      this.#queue({ first: true, second: true }, ORDER_MATMULS)
      this.wrapped.launchHostFunc((number) => hostFunctions.push(number), round)
      pending.push(this.ours.finished().then(() => void finished.push(round)))
      if (pending.length === ROUNDS_IN_FLIGHT || round === rounds - 1) {
        this.#log(`  order: ${round + 1} rounds queued, ${hostFunctions.length} host functions have run`)
        await Promise.all([...pending, this.wrapped.finished()])
        pending = []
      }
    }
    const milliseconds = performance.now() - start
    this.#log(`  order: host functions ran in the order ${hostFunctions.join(' ')}`)
    this.#log(`  order: finished() resolved in the order ${finished.join(' ')}`)
    return { rounds, hostFunctions, finished, right: this.#right(rounds - 1).right, milliseconds }
  }

  /** Lets go of PyTorch's stream and destroys ours. */
  close(): void {
    this.wrapped.close()
    this.ours.close()
  }

  async #case(name: string, rounds: number, waits: Waits): Promise<CaseResult> {
    let right = 0
    let milliseconds = 0
    for (let round = 0; round < rounds; round++) {
      const took = await this.#round(round, waits)
      const answer = this.#right(round)
      milliseconds += took
      if (answer.right) right++
      this.#log(
        `  ${name}: round ${String(round + 1).padStart(2)}, ${took.toFixed(2).padStart(6)} ms, ${answer.description}`,
      )
    }
    return { rounds, right, wrong: rounds - right, milliseconds }
  }

  /** One round from a clean start to the end of all its work. Returns its milliseconds. */
  async #round(round: number, waits: Waits): Promise<number> {
    const { c, d, e } = this.#pointers
    const words = (this.#size * this.#size * BYTES) / 4
    for (const matrix of [c, d, e]) this.#raw.fill32(matrix, POISON, words, this.ours.handle)
    this.#python.run(`story.set(${valuesOf(round, this.#size).factor})`)
    await Promise.all([this.ours.finished(), this.wrapped.finished()])

    const start = performance.now()
    const held = this.#queue(waits, this.#matmuls)
    // Without a wait the stream that should be waited for is held until the other one is done.
    if (held !== undefined) {
      await (waits.first ? this.wrapped : this.ours).finished()
      held.release()
    }
    await Promise.all([this.ours.finished(), this.wrapped.finished()])
    return performance.now() - start
  }

  /** The three steps. Where a wait is left out, the stream that it would be for is held. Nothing in here waits for the GPU. */
  #queue(waits: Waits, matmuls: number): Held | undefined {
    const { c, d } = this.#pointers
    const byteLength = this.#size * this.#size * BYTES
    const { ours, wrapped } = this

    let held = waits.first ? undefined : this.#hold(wrapped)
    this.#python.run(`story.first(${matmuls})`)
    if (waits.first) ours.wait(wrapped)
    if (!waits.second) held = this.#hold(ours)
    this.#raw.copy(d, c, byteLength, ours.handle)
    if (waits.second) wrapped.wait(ours)
    this.#python.run('story.second()')
    return held
  }

  /** Whether every element of e is what round `round` must give. Call it when all work is done. */
  #right(round: number): { right: boolean; description: string } {
    const { expected } = valuesOf(round, this.#size)
    const answer = this.#python.evaluate(`story.check(${expected})`).value() as { right: number; sample: number }
    const total = this.#size * this.#size
    return {
      right: answer.right === total,
      description:
        answer.right === total
          ? `right: ${expected} everywhere`
          : `wrong: ${total - answer.right} of ${total} are not ${expected}, the last one is ${answer.sample}`,
    }
  }
}
