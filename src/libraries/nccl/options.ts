/** The options of NCCL's calls, and their checks. */
import { checkChoice, checkInteger, type Given, readOptions } from '../../base/arguments.js'
import { checkBytes } from '../../base/bytes.js'
import { invalidType, invalidValue, outOfRange } from '../../base/errors.js'
import type { Device } from '../../device.js'
import type { Stream } from '../../stream.js'
import { NCCL_OPERATIONS, type NCCL_TYPES, UNIQUE_ID_BYTES } from './library.js'

/**
 * What the elements are: signed, unsigned and floating types, by their number of bits; bf16 is the upper half of an
 * f32.
 */
export type NcclType = keyof typeof NCCL_TYPES
/** How values of all ranks become one: their sum, product, greatest, least, or mean. */
export type NcclReduction = keyof typeof NCCL_OPERATIONS

/** What `Communicator.create()` takes. */
export interface CommunicatorOptions {
  /** What `uniqueId()` returned in one of the processes: the same for all ranks. */
  readonly id: Uint8Array
  /** From 0 to size - 1: another one for each rank. */
  readonly rank: number
  /** How many ranks there are, at least 1: the same for all of them. */
  readonly size: number
  /** Another one for each rank. Default: the current device. */
  readonly device?: Device | number | undefined
  /**
   * Milliseconds that a call may wait for the other ranks before the communicator is given up: more than 0, `Infinity`
   * is allowed. Default: ten minutes.
   */
  readonly timeout?: number | undefined
  /** Gives up waiting for the other ranks: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** What every call takes. */
export interface TransferOptions {
  /** Of the elements. */
  readonly type: NcclType
  /** Default: the current stream of the communicator's device. It cannot be a per-thread default stream. */
  readonly stream?: Stream | undefined
}

/** What calls take that make one value of those of all ranks. */
export interface ReductionOptions extends TransferOptions {
  /** Default 'sum'. */
  readonly op?: NcclReduction | undefined
}

/** What calls take in which one rank stands out. */
export interface RootOptions {
  /** The rank that has the data to send, or receives the result. Default 0. */
  readonly root?: number | undefined
}

/** What `send` and `recv` take. */
export interface PeerOptions extends TransferOptions {
  /** The rank to send to or to receive from, from 0 to size - 1. */
  readonly peer: number
}

const DEFAULT_TIMEOUT = 600_000
const MOST_RANKS = 2 ** 31 - 1
/** An id has the address of the process that made it behind eight random bytes, as sockets have it. */
const FAMILY_OFFSET = 8
const FAMILIES = [2, 10]

/** The options that not all calls take. */
export type CallOption = 'op' | 'root' | 'peer'
/** The options of all calls together; each call takes some of them. */
export type GivenCall = Given<ReductionOptions & RootOptions & PeerOptions, 'type' | 'stream' | CallOption>

export function readCall(options: TransferOptions, takes: readonly CallOption[]): GivenCall {
  if (options === undefined) throw invalidType('options', 'an object such as { type }', options)
  return readOptions(options as ReductionOptions & RootOptions & PeerOptions, ['type', 'stream', ...takes])
}

export const checkSize = (size: unknown): number => checkInteger(size, 'options.size', 1, MOST_RANKS)

export const checkRank = (rank: unknown, name: string, size: number): number =>
  checkInteger(rank, name, 0, size - 1, () => `from 0 to ${size - 1}: there are ${size} rank(s)`)

/** Throws for bytes that cannot be an id; NCCL would look for a process at whatever address they name. */
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

/** A reduction, which is a sum by default. */
export const checkReduction = (op: unknown = 'sum'): NcclReduction =>
  checkChoice(op, 'options.op', Object.keys(NCCL_OPERATIONS) as NcclReduction[])
