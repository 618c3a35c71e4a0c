/** One call of a communicator while its arguments are checked. */
import { checkChoice } from '../../base/arguments.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../../base/errors.js'
import { type Device, elsewhere } from '../../device.js'
import type { DeviceBuffer } from '../../memory/device-buffer.js'
import { isStream, Stream } from '../../stream.js'
import { checkDeviceBuffer, type GivenMemory } from '../library-memory.js'
import { ask, checkAlive } from './group.js'
import type { NcclHandle } from './handle.js'
import { NCCL_OPERATIONS, NCCL_TYPES, type NcclFunction } from './library.js'
import {
  type CallOption,
  checkRank,
  checkReduction,
  type GivenCall,
  type NcclReduction,
  type NcclType,
  readCall,
  type TransferOptions,
} from './options.js'

/** The handle of a per-thread default stream, which NCCL, on a thread of its own, would take for another stream. */
const PER_THREAD = 2n

const TYPE_NAMES = Object.keys(NCCL_TYPES) as NcclType[]

export class NcclCall {
  readonly #type: NcclType
  readonly #stream: Stream
  readonly #given: GivenCall
  // The arguments besides the buffers, once they have been asked for.
  #op: NcclReduction | undefined
  #root: number | undefined
  #peer: number | undefined

  /** Throws ERR_CLOSED, ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_DEVICE_MISMATCH or ERR_UNSUPPORTED. */
  constructor(
    private readonly handle: NcclHandle,
    device: Device,
    options: TransferOptions,
    takes: readonly CallOption[],
  ) {
    this.#given = readCall(options, takes)
    const { type, stream } = this.#given
    checkAlive(handle)
    this.#type = checkChoice(type, 'options.type', TYPE_NAMES)
    this.#stream = streamFor(device, stream)
  }

  /** It takes a reduction. */
  reduction(): void {
    this.#op = checkReduction(this.#given.op)
  }

  /** The rank that stands out. */
  root(): number {
    const { root = 0 } = this.#given
    this.#root = checkRank(root, 'options.root', this.handle.clique.size)
    return this.#root
  }

  /** It takes the rank at the other end. */
  peer(): void {
    this.#peer = checkRank(this.#given.peer, 'options.peer', this.handle.clique.size)
  }

  /** How many elements a buffer has. */
  elements(buffer: DeviceBuffer, name: string): number {
    const { bytes } = NCCL_TYPES[this.#type]
    checkDeviceBuffer(buffer, name, bytes, this.#stream)
    if (buffer.byteLength % bytes === 0) return buffer.byteLength / bytes
    throw invalidValue(`${name} is no whole number of elements of ${bytes} bytes: ${buffer}`)
  }

  /** The buffer must have so many elements. */
  expect(buffer: DeviceBuffer | undefined, name: string, elements: number): DeviceBuffer {
    const { bytes } = NCCL_TYPES[this.#type]
    if (buffer === undefined) throw invalidType(name, 'a DeviceBuffer', buffer)
    checkDeviceBuffer(buffer, name, bytes, this.#stream)
    if (buffer.byteLength === elements * bytes) return buffer
    const expected = `${elements * bytes} bytes long, for ${elements} elements of ${this.#type} (take a slice)`
    throw outOfRange(name, expected, buffer.byteLength)
  }

  /**
   * NCCL reads while it writes: the two must lie apart, or as they do in place, where the source begins so many bytes
   * behind the destination. Throws ERR_INVALID_ARG_VALUE.
   */
  checkBuffersApart(source: DeviceBuffer, destination: DeviceBuffer, inPlace: number): void {
    const distance = Number(source.pointer) - Number(destination.pointer)
    if (distance === inPlace || distance >= destination.byteLength || -distance >= source.byteLength) return
    const [inner, outer] = inPlace < 0 ? ['destination', 'source'] : ['source', 'destination']
    const where =
      inPlace === 0 ? 'both begin at one address' : `${inner} begins at byte ${Math.abs(inPlace)} of ${outer}`
    throw invalidValue(`source and destination overlap, which NCCL only takes in place, where ${where}`)
  }

  /**
   * Queues it, or puts it into the group that is open.
   * @param buffersOf NCCL's arguments for the buffers, from the addresses of the memory: by default these are they
   */
  ask(
    name: NcclFunction,
    count: number,
    memory: readonly GivenMemory[],
    buffersOf: (pointers: readonly number[]) => readonly number[] = (pointers) => pointers,
  ): void {
    const { handle } = this
    const { clique, rank, library, address } = handle
    const type = this.#type
    const op = this.#op
    const root = this.#root
    const peer = this.#peer
    // NCCL's functions take those of these that they take, in this order.
    const numbers = [op && NCCL_OPERATIONS[op], root, peer].filter((number) => number !== undefined)
    const says = (): string => {
      const said = [`${count} x ${type}`, op ?? '', root === undefined ? '' : `root ${root}`]
      const what = said.filter((part) => part !== '').join(', ')
      // What is sent as one thing is received as the same.
      return peer === undefined ? `${name}(${what})` : what
    }
    const call = (pointers: readonly number[], raw: number): void =>
      library.call(name, ...buffersOf(pointers), count, NCCL_TYPES[type].data, ...numbers, address, raw)
    // All in one literal: V8 of Node 20 takes a microsecond to spread one object into another.
    const [isSend, stream] = [name === 'ncclSend', this.#stream]
    ask({ clique, rank, peer, isSend, says, name, type, op: op ?? 'sum', handle, stream, memory, call })
  }
}

function streamFor(device: Device, given: Stream | undefined): Stream {
  if (given !== undefined && !isStream(given)) throw invalidType('options.stream', 'a Stream', given)
  const stream = given ?? Stream.current(device)
  if (stream.device !== device) {
    const where = elsewhere(device, stream.device)
    throw stateError('ERR_DEVICE_MISMATCH', `${stream} is on ${stream.device}, and the communicator on ${where}`)
  }
  if (stream.handle === PER_THREAD) {
    throw stateError('ERR_UNSUPPORTED', `NCCL cannot use ${stream}, the per-thread default stream: take another stream`)
  }
  return stream
}
