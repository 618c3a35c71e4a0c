/** What one thread of a soak plays on: a device or two, the default streams, and the kernels. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Device, type DeviceBuffer, Stream } from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { Fft } from 'cuda-streams/cufft'
import { Communicator } from 'cuda-streams/nccl'
import { openCudaWorkbench } from '../helpers/cuda-workbench.js'
import { simWorkbench, type Workbench } from '../helpers/workbench.js'
import type { Fixture } from './fixture.js'
import { add, affine, mirror } from './kernels.js'
import { codeOf, type Tracker } from './tracker.js'
import { type Clock, LegacyOrder, reached, Track, unrun } from './tracks.js'

const MOST_DEVICES = 2
/** That a thread has for each device. */
const FOREIGN_STREAMS = 12

export interface ForeignStream {
  readonly device: Device
  readonly nonBlocking: boolean
  readonly handle: bigint
}

export class Machine {
  readonly bench: Workbench
  readonly fixture: Fixture
  readonly tracker: Tracker
  readonly number: number
  readonly devices: readonly Device[]
  /** Undefined where cuBLAS is not found. */
  cublas: Cublas | undefined
  /** Undefined where cuFFT is not found. */
  fft: Fft | undefined
  /** One for each simulated device: ranks of NCCL. */
  ranks: readonly Communicator[] = []
  readonly #legacy = new Map<Device, LegacyOrder>()
  readonly #perThread = new Map<Device, Track>()
  readonly #context = new AsyncLocalStorage<object>()
  /** Foreign streams that are not played with. */
  readonly #foreign: ForeignStream[] = []

  constructor(fixture: Fixture, tracker: Tracker, number: number) {
    this.fixture = fixture
    this.tracker = tracker
    this.number = number
    this.bench = openBench(fixture, number)
    this.devices = this.bench.devices.slice(0, MOST_DEVICES)
    for (const device of this.devices) this.#legacy.set(device, new LegacyOrder())
    if (!this.isSimulated) this.#makeForeign()
  }

  /** Compiles and loads what waits for the device when it is first used. */
  async prepare(): Promise<void> {
    for (const device of this.devices) for (const kernel of [affine, add, mirror]) await kernel.prepare(device)
    await this.#whileNothingCaptures(() => {
      this.cublas = ifInstalled('products', () => new Cublas({ device: this.device }))
      this.fft = ifInstalled('transforms', () => new Fft({ ...TRANSFORM, device: this.device }))
    })
    if (this.cublas !== undefined) await warmUp(this.cublas)
    if (this.fft !== undefined) await warmUpTransforms(this.fft)
    if (this.isSimulated) this.ranks = await Communicator.createAll(this.devices)
  }

  /** cuFFT works on the null stream while it makes a plan, which invalidates what a blocking stream of another thread captures meanwhile. */
  async #whileNothingCaptures(make: () => void): Promise<void> {
    while (!this.fixture.waitForDevice(make)) await nextTurn()
  }

  async close(): Promise<void> {
    this.cublas?.close()
    this.fft?.close()
    await Promise.all(this.ranks.map((rank) => rank.close()))
  }

  get device(): Device {
    return this.bench.device
  }

  get isSimulated(): boolean {
    return this.bench.name === 'sim'
  }

  /** Does no other thread use the same devices? */
  get isAlone(): boolean {
    return this.fixture.options.workers === 0
  }

  /** May this thread fill hardware queues? */
  get mayFillQueues(): boolean {
    return this.isSimulated || this.number === 0 || this.fixture.options.bursts
  }

  /** A stream of another library; undefined where none is left on this device. */
  takeForeign(device: Device, nonBlocking: boolean, priority: number): ForeignStream | undefined {
    if (this.isSimulated) {
      return { device, nonBlocking, handle: this.bench.foreignStream(device, { nonBlocking, priority }) }
    }
    const at = this.#foreign.findIndex((each) => each.device === device && each.nonBlocking === nonBlocking)
    return at === -1 ? undefined : this.#foreign.splice(at, 1)[0]
  }

  /** The other library has no use for it any more. */
  giveBackForeign(stream: ForeignStream): void {
    if (this.isSimulated) this.bench.destroyForeignStream(stream.handle)
    else this.#foreign.push(stream)
  }

  /** While a stream stands, CUDA's own making of one may wait for the device: so they are made before. */
  #makeForeign(): void {
    for (const device of this.devices) {
      for (let made = 0; made < FOREIGN_STREAMS; made += 1) {
        const nonBlocking = made % 2 === 0
        const handle = this.bench.foreignStream(device, { nonBlocking, priority: -(made % 6) })
        this.#foreign.push({ device, nonBlocking, handle })
      }
    }
  }

  legacyOf(device: Device): LegacyOrder {
    const found = this.#legacy.get(device)
    if (found === undefined) throw new RangeError(`${device} is not played on`)
    return found
  }

  nullTrack(device: Device): Track {
    const legacy = this.legacyOf(device)
    return legacy.nullTrack ?? new Track(device.defaultStream, 'null', legacy)
  }

  perThreadTrack(device: Device): Track {
    let track = this.#perThread.get(device)
    if (track === undefined) {
      track = new Track(
        device.run(() => Stream.perThread),
        'perThread',
        this.legacyOf(device),
      )
      this.#perThread.set(device, track)
    }
    return track
  }

  /** May this stream capture, and streams join it? */
  mayCapture({ origin, isBlocking }: Track): boolean {
    return origin !== 'null' && !(isBlocking && this.fixture.usesNullStream)
  }

  /** Queues a host function or a callback that has to run once, in order, in the async context of this call. */
  host(track: Track, body: (() => unknown) | undefined, kind: 'host function' | 'callback' = 'host function'): void {
    const { tracker } = this
    const context = {}
    let [at, ran] = [0, 0]
    track.beforeWork()
    const before = track.clock()
    const run = (): unknown => {
      ran += 1
      const what = `${kind} ${at} of ${track}`
      if (ran > 1) tracker.fail(`${what} ran ${ran} times`)
      if (this.#context.getStore() !== context) tracker.fail(`${what} ran in another async context`)
      if (track.pending[0] !== at) tracker.fail(`${what} ran before ${track.pending[0]}`)
      for (const [other, upTo] of before) {
        const missing = other === track ? undefined : unrun(other, upTo)
        if (missing !== undefined) tracker.fail(`${what} ran before ${missing}`)
      }
      try {
        return body?.()
      } finally {
        track.pending.shift()
        tracker.counts[kind === 'callback' ? 'callbacks' : 'hostFunctions'] += 1
      }
    }
    const { stream } = track
    this.#context.run(context, () => {
      if (kind === 'host function') stream.launchHostFunc(run)
      else {
        stream.addCallback((given, status, argument) => {
          if (given !== stream || status !== 0 || argument !== context) tracker.fail(`a callback heard ${status}`)
          run()
        }, context)
      }
    })
    ;({ at } = track.worked())
    track.pending.push(at)
  }

  /** The host has waited: host functions up to there must have run. */
  reached(clock: Clock, how: string): void {
    const missing = reached(clock)
    if (missing !== undefined) this.tracker.fail(`${how} came before ${missing}`)
  }
}

function openBench({ options }: Fixture, number: number): Workbench {
  if (options.driver !== 'sim') {
    const cuda = openCudaWorkbench()
    if (typeof cuda !== 'string') return cuda
    if (options.driver === 'cuda') throw new Error(`no NVIDIA driver here: ${cuda}`)
  }
  return simWorkbench({ devices: MOST_DEVICES, seed: options.seed + number })
}

/** The matrices of all products are square, so that all are of one kind: only the first may wait for the device. */
export const PRODUCT = { type: 'f32', m: 8, n: 8, k: 8, beta: 1 } as const

async function warmUp(cublas: Cublas): Promise<void> {
  using stream = new Stream({ device: cublas.device })
  using numbers = cublas.device.alloc(3 * 1024, { stream })
  stream.fill(numbers, 0)
  const [a, b, c] = [0, 1024, 2048].map((from) => numbers.subarray(from, from + 256)) as [
    DeviceBuffer,
    DeviceBuffer,
    DeviceBuffer,
  ]
  stream.run(() => cublas.gemm(stream, a, b, c, PRODUCT))
  await stream.finished()
}

/** Of two elements, and so exact: their sum and their difference. */
export const TRANSFORM = { type: 'c2c', shape: [2], batch: 32 } as const

async function warmUpTransforms(fft: Fft): Promise<void> {
  using stream = new Stream({ device: fft.device })
  using numbers = fft.device.alloc(fft.inputBytes, { stream })
  stream.run(() => fft.forward(stream, numbers))
  await stream.finished()
}

function ifInstalled<T>(what: string, make: () => T): T | undefined {
  try {
    return make()
  } catch (error) {
    if (codeOf(error) !== 'ERR_UNSUPPORTED') throw error
    console.log(`Without ${what}: ${error instanceof Error ? error.message : error}`)
    return undefined
  }
}
