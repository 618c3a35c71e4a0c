/** A library of the simulation that owns a stream and memory of its own: it stands in where there is no GPU or no Python. */
import {
  type Device,
  DeviceBuffer,
  Event,
  ExternalStream,
  type GraphExec,
  type PythonStreamLike,
  type Stream,
} from 'cuda-streams'
import { foreignStream } from 'cuda-streams/sim'
import type { Ability, ArrayInterface, Library } from './library.js'
import { TRIPLE, tripleConfig } from './triple.js'

const ALL: readonly Ability[] = [
  'computes',
  'wraps by protocol',
  'waits for events',
  'names its stream',
  'heeds our stream',
  'captures',
]

export class SimulatedLibrary implements Library {
  readonly name = 'a library of the simulation'
  readonly abilities: ReadonlySet<Ability>
  readonly owner = this
  readonly stream: bigint
  readonly streamObject: PythonStreamLike
  readonly #device: Device
  readonly #stream: Stream
  readonly #mine: DeviceBuffer
  readonly #result: DeviceBuffer
  #event: Event | undefined
  #wrapped: Stream | undefined
  #ours: DeviceBuffer | undefined
  #exec: GraphExec | undefined

  /** `only` takes abilities away, so that it resembles a library which has just these. */
  constructor(device: Device, count: number, only: readonly Ability[] = ALL) {
    this.abilities = new Set(only)
    this.#device = device
    this.stream = foreignStream(device)
    this.streamObject = { __cuda_stream__: () => [0, this.stream] }
    this.#stream = new ExternalStream(this.stream, { device })
    this.#mine = device.alloc(4 * count, { stream: this.#stream })
    this.#result = device.alloc(4 * count, { stream: this.#stream })
  }

  get mine(): bigint {
    return this.#mine.pointer
  }
  get result(): bigint {
    return this.#result.pointer
  }

  fill(value: number): void {
    this.#stream.fill(this.#mine, value, { width: 4 })
  }
  readMine(): void {
    this.#stream.copy(this.#result, this.#mine)
  }
  record(): bigint {
    this.#event = this.#stream.record()
    return this.#event.handle
  }
  waitForEvent(handle: bigint): void {
    this.#stream.wait(Event.from(handle, { device: this.#device }))
  }
  arrayInterface(): ArrayInterface {
    return { pointer: this.mine, byteLength: this.#mine.byteLength, stream: this.stream }
  }
  wrapStream(stream: Stream, by: 'handle' | 'protocol'): void {
    const source = by === 'handle' ? stream.handle : { __cuda_stream__: () => [0, stream.handle] as const }
    this.#wrapped = new ExternalStream(source, { device: this.#device })
  }
  waitForWrapped(): void {
    this.#stream.wait(known(this.#wrapped))
  }
  wrapMemory(pointer: bigint, stream: bigint | undefined): void {
    if (stream !== undefined) this.#stream.wait(new ExternalStream(stream, { device: this.#device }))
    this.#ours = DeviceBuffer.from(pointer, this.#mine.byteLength, { device: this.#device })
  }
  readOurs(): void {
    this.#stream.copy(this.#result, known(this.#ours))
  }
  fillOursOnWrapped(value: number): void {
    known(this.#wrapped).fill(known(this.#ours), value, { width: 4 })
  }
  captureFill(value: number, ours: boolean): void {
    const buffer = ours ? known(this.#ours) : this.#mine
    this.#exec = this.#stream.capture(() => this.#stream.fill(buffer, value, { width: 4 })).instantiate()
    this.launchCaptured(false)
  }
  launchCaptured(onWrapped: boolean): void {
    const stream = onWrapped ? known(this.#wrapped) : this.#stream
    stream.launch(known(this.#exec))
  }
  transform(value: number, length: number): void {
    this.#stream.launch(TRIPLE, tripleConfig(length), known(this.#ours), value, length)
  }
  copyPart(part: number, length: number): void {
    const [source, target] = [part, part + 1].map((at) =>
      known(this.#ours).subarray(4 * length * at, 4 * length * (at + 1)),
    )
    this.#stream.copy(known(target), known(source))
  }
}

function known<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('nothing was wrapped yet')
  return value
}
