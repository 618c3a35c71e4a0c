/** The options of NCCL's calls, and one call of a communicator while its arguments are checked. */

import type { Device } from '../../core/device.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { Stream } from '../../core/stream.js'
import { streamImplOf } from '../../core/streams/stream-impl.js'
import { checkChoice, checkInteger, type Given, readOptions } from '../../foundation/base/arguments.js'
import { checkBytes } from '../../foundation/base/bytes.js'
import { ELEMENT_TYPES, elementTypesWith } from '../../foundation/base/element-types.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../../foundation/base/errors.js'
import { cudaHandleOf } from '../../foundation/driver/handle-types.js'
import { refuseStream, streamOfCall } from '../handle-library.js'
import { checkDeviceBuffer, type GivenMemory } from '../library-call.js'
import { checkAlive, enqueue } from './group.js'
import type { NcclHandle, NcclOperation } from './nccl-handle.js'
import type { NcclFunction, NcclReduction, NcclType } from './nccl-library.js'
import { NCCL_OPERATIONS, UNIQUE_ID_BYTES } from './nccl-library.js'

/** The options of `Communicator.create()`. */
export interface CommunicatorOptions {
  /** The result of `uniqueId()` in one of the processes: the same for all ranks. */
  readonly id: Uint8Array
  /** The number of this rank, from 0 to size - 1. */
  readonly rank: number
  /** The number of ranks, at least 1: the same for all of them. */
  readonly size: number
  /** The device of this rank. No two ranks may have the same. Default: the current device. */
  readonly device?: Device | number | undefined
  /**
   * The longest time in milliseconds that a call may wait for the other ranks before the communicator is aborted: more than
   * 0, `Infinity` is allowed. Default: ten minutes.
   */
  readonly timeout?: number | undefined
  /** Gives up waiting for the other ranks: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** The options of all calls. */
export interface TransferOptions {
  /** The type of the elements. */
  readonly type: NcclType
}

/** The options of calls that reduce the values of all ranks. */
export interface ReductionOptions extends TransferOptions {
  /** The reduction. Default 'sum'. */
  readonly op?: NcclReduction | undefined
}

/** The options of calls in which one rank is the root. */
export interface RootOptions {
  /** The rank that has the data to send, or receives the result. Default 0. */
  readonly root?: number | undefined
}

/** The options of `send` and `recv`. */
export interface PeerOptions extends TransferOptions {
  /** The rank to send to or to receive from, from 0 to size - 1. */
  readonly peer: number
}

const DEFAULT_TIMEOUT = 600_000
const MOST_RANKS = 2 ** 31 - 1
/** An id has the socket address of the process that made it behind eight random bytes. */
const FAMILY_OFFSET = 8
const FAMILIES = [2, 10]

/** The options that only some calls have. */
export type CallOption = 'op' | 'root' | 'peer'
/** The options of all calls together. */
type AllOptions = ReductionOptions & RootOptions & PeerOptions

export const checkSize = (size: unknown): number => checkInteger(size, 'options.size', 1, MOST_RANKS)

export const checkRank = (rank: unknown, name: string, size: number): number =>
  checkInteger(rank, name, 0, size - 1, () => `from 0 to ${size - 1}: there are ${size} rank(s)`)

/** Throws for bytes that cannot be an id: NCCL would try to reach a process at whatever address they have. */
export function checkId(given: unknown): Uint8Array {
  const id = checkBytes(given, 'options.id', [UNIQUE_ID_BYTES])
  const view = new DataView(id.buffer, id.byteOffset, id.byteLength)
  const family = view.getUint16(FAMILY_OFFSET, true)
  const port = view.getUint16(FAMILY_OFFSET + 2, false)
  if (FAMILIES.includes(family) && port !== 0) return id
  throw invalidValue('options.id are 128 bytes, but not those that uniqueId() returned: they name no address')
}

export function checkTimeout(timeout: unknown = DEFAULT_TIMEOUT): number {
  if (typeof timeout !== 'number') throw invalidType('options.timeout', 'a number of milliseconds', timeout)
  if (!(timeout > 0)) throw outOfRange('options.timeout', 'more than 0', timeout)
  return timeout
}

/** The handle of a per-thread default stream: on a thread of NCCL it would be another stream. */
const PER_THREAD = 2

const TYPES = elementTypesWith('nccl')
const REDUCTIONS = Object.keys(NCCL_OPERATIONS) as NcclReduction[]

export class NcclCall {
  readonly #type: NcclType
  readonly #stream: Stream
  readonly #op: NcclReduction | undefined
  readonly #peer: number | undefined
  /** The root; undefined if the call takes none. */
  readonly root: number | undefined

  /** Throws ERR_CLOSED, ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_DEVICE_MISMATCH or ERR_UNSUPPORTED. */
  constructor(
    private readonly handle: NcclHandle,
    device: Device,
    stream: Stream,
    options: TransferOptions,
    takes: readonly CallOption[],
  ) {
    if (options === undefined) throw invalidType('options', 'an object such as { type }', options)
    const given = readCallOptions(options as AllOptions, ['type', ...takes])
    const { op = 'sum', root = 0 } = given
    const { size } = handle.clique
    checkAlive(handle)
    this.#type = checkChoice(given.type, 'options.type', TYPES)
    this.#stream = streamFor(device, stream)
    this.#op = takes.includes('op') ? checkChoice(op, 'options.op', REDUCTIONS) : undefined
    this.root = takes.includes('root') ? checkRank(root, 'options.root', size) : undefined
    this.#peer = takes.includes('peer') ? checkRank(given.peer, 'options.peer', size) : undefined
  }

  /** The number of elements in a buffer. */
  elements(buffer: DeviceBuffer, name: string): number {
    const { bytes } = ELEMENT_TYPES[this.#type]
    checkDeviceBuffer(buffer, name, bytes, this.#stream)
    if (buffer.byteLength % bytes === 0) return buffer.byteLength / bytes
    throw invalidValue(`${name} is no whole number of elements of ${bytes} bytes: ${buffer}`)
  }

  /** Checks that a buffer has so many elements. */
  expect(buffer: DeviceBuffer | undefined, name: string, elements: number): DeviceBuffer {
    const { bytes } = ELEMENT_TYPES[this.#type]
    if (buffer === undefined) throw invalidType(name, 'a DeviceBuffer', buffer)
    checkDeviceBuffer(buffer, name, bytes, this.#stream)
    if (buffer.byteLength === elements * bytes) return buffer
    const expected = `${elements * bytes} bytes long, for ${elements} elements of ${this.#type} (take a slice)`
    throw outOfRange(name, expected, buffer.byteLength)
  }

  /**
   * NCCL reads while it writes, so the two must not overlap, except in place: then the source begins so many bytes behind the
   * destination. Throws ERR_INVALID_ARG_VALUE.
   */
  checkBuffersApart(source: DeviceBuffer, destination: DeviceBuffer, inPlace: number): void {
    const distance = Number(source.pointer) - Number(destination.pointer)
    if (distance === inPlace || distance >= destination.byteLength || -distance >= source.byteLength) return
    const [inner, outer] = inPlace < 0 ? ['destination', 'source'] : ['source', 'destination']
    const where =
      inPlace === 0 ? 'both begin at one address' : `${inner} begins at byte ${Math.abs(inPlace)} of ${outer}`
    throw invalidValue(`source and destination overlap, which NCCL only accepts in place, where ${where}`)
  }

  /**
   * Queues the call, or adds it to the open group.
   * @param buffersOf Returns NCCL's arguments for the buffers, given the addresses of the memory: by default these.
   */
  enqueue(name: NcclFunction, count: number, memory: readonly GivenMemory[], buffersOf?: BuffersOf): void {
    const facts = { name, count, type: this.#type, givenOp: this.#op, peer: this.#peer, root: this.root }
    enqueue(new Operation(this.handle, this.#stream, memory, facts, buffersOf))
  }
}

type BuffersOf = (pointers: readonly number[]) => readonly number[]

/** The parameters of a call, beside its memory and its stream. */
interface CallFacts extends Pick<NcclOperation, 'name' | 'count' | 'type' | 'peer' | 'root'> {
  /** The reduction; undefined if the function takes none. */
  readonly givenOp: NcclReduction | undefined
}

/** A call that is queued, or added to a group. It is a class, since its methods are made once. */
class Operation implements NcclOperation {
  readonly name: NcclFunction
  readonly count: number
  readonly type: NcclType
  readonly op: NcclReduction
  readonly peer: number | undefined
  readonly root: number | undefined

  constructor(
    readonly handle: NcclHandle,
    readonly stream: Stream,
    readonly memory: readonly GivenMemory[],
    private readonly facts: CallFacts,
    private readonly buffersOf: BuffersOf | undefined,
  ) {
    this.name = facts.name
    this.count = facts.count
    this.type = facts.type
    this.op = facts.givenOp ?? 'sum'
    this.peer = facts.peer
    this.root = facts.root
  }

  describe(): string {
    const { name, count, type, givenOp, root, peer } = this.facts
    const parts = [`${count} x ${type}`, givenOp ?? '', root === undefined ? '' : `root ${root}`]
    const what = parts.filter((part) => part !== '').join(', ')
    // A send and its receive are described alike.
    return peer === undefined ? `${name}(${what})` : what
  }

  argumentsFor(memory: readonly { readonly pointer: number }[], stream: number): readonly number[] {
    const { handle, buffersOf } = this
    const { count, type, givenOp, root, peer } = this.facts
    const args: number[] = []
    for (const { pointer } of memory) args.push(pointer)
    if (buffersOf !== undefined) args.splice(0, args.length, ...buffersOf([...args]))
    args.push(count, ELEMENT_TYPES[type].nccl)
    // The functions of NCCL that have these parameters have them in this order.
    if (givenOp !== undefined) args.push(NCCL_OPERATIONS[givenOp])
    if (root !== undefined) args.push(root)
    if (peer !== undefined) args.push(peer)
    args.push(handle.address, stream)
    return args
  }
}

/** Says of a stream among the options where it goes. That is looked at only once they are refused: a collective is a microsecond. */
function readCallOptions<K extends keyof AllOptions>(options: AllOptions, names: readonly K[]): Given<AllOptions, K> {
  try {
    return readOptions(options, names)
  } catch (error) {
    refuseStream(options, 'communicator.allReduce(stream, source, destination, options)')
    throw error
  }
}

function streamFor(device: Device, given: unknown): Stream {
  const stream = streamOfCall({ device, toString: () => 'the communicator' }, given)
  const impl = streamImplOf(stream)
  if (impl !== undefined && cudaHandleOf(impl.handle) === PER_THREAD) {
    throw stateError('ERR_UNSUPPORTED', `NCCL cannot use ${stream}, the per-thread default stream: take another stream`)
  }
  return stream
}
