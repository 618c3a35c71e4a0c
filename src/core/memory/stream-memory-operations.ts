/** `stream.waitValue()` and `stream.writeValue()`: words in memory by which streams, JavaScript and processes signal each other. */
import { checkInteger, type Given, oneOf, readOptions } from '../../foundation/base/arguments.js'
import { invalidType, invalidValue, outOfRange, stateError } from '../../foundation/base/errors.js'
import { DEVICE_ATTRIBUTES } from '../../foundation/driver/device-attributes.js'
import { Comparison } from '../../foundation/driver/driver-constants.js'
import type { MemoryValue } from '../../foundation/driver/touched-memory.js'
import type { Device } from '../device.js'
import type { StreamImpl } from '../streams/stream-impl.js'
import { DeviceAllocation } from './allocations.js'
import type { BufferImpl } from './buffer.js'
import { queueWith } from './queue-with-memory.js'
import { checkBuffer } from './transfers.js'

/** The place of a value in a buffer. */
export interface WriteValueOptions {
  /** Bytes from the beginning of the buffer, a multiple of the value's 4 or 8. Default 0. */
  readonly byteOffset?: number | undefined
}

/** The condition of a wait for a value, and the place of the value. */
export interface WaitValueOptions extends WriteValueOptions {
  /**
   * The condition that ends the wait. 'geq': the word is at least the value, counted cyclically (the difference is not
   * negative as a signed number); 'eq': it is the value; 'and': it has one of the value's bits; 'nor': it lacks one of the
   * bits that the value lacks. Default 'geq'.
   */
  readonly compare?: 'geq' | 'eq' | 'and' | 'nor' | undefined
}

const COMPARISONS = { geq: Comparison.GEQ, eq: Comparison.EQ, and: Comparison.AND, nor: Comparison.NOR } as const

/** `stream.waitValue()`. */
export function waitValue(
  stream: StreamImpl,
  buffer: unknown,
  value: unknown,
  options: WaitValueOptions | undefined,
): void {
  const given = readOptions(options, ['byteOffset', 'compare'])
  const comparison = oneOf(given.compare, COMPARISONS, 'options.compare') ?? Comparison.GEQ
  if (comparison === Comparison.NOR) need(stream, 'canUseStreamWaitValueNor', "compare: 'nor'")
  queue(stream, buffer, value, given, (word) => {
    const { handle, context } = stream
    stream.driver.work.queue({ kind: 'waitValue', stream: handle, context, word, compare: comparison })
  })
  stream.lastWork = 'waitValue()'
}

/** `stream.writeValue()`. */
export function writeValue(
  stream: StreamImpl,
  buffer: unknown,
  value: unknown,
  options: WriteValueOptions | undefined,
): void {
  const given = readOptions(options, ['byteOffset'])
  queue(stream, buffer, value, given, (word) => {
    stream.driver.work.queue({ kind: 'writeValue', stream: stream.handle, word })
  })
  stream.lastWork = 'writeValue()'
}

function queue(
  stream: StreamImpl,
  buffer: unknown,
  value: unknown,
  { byteOffset = 0 }: Given<WriteValueOptions, 'byteOffset'>,
  call: (at: MemoryValue) => void,
): void {
  const impl = checkBuffer(buffer, 'buffer')
  impl.checkOpen()
  const word = checkValue(value)
  const bytes = word.bits / 8
  if (word.bits === 64) need(stream, 'canUse64BitStreamMemOps', 'a value of 64 bits (a bigint)')
  const most = impl.byteLength - bytes
  if (most < 0) throw outOfRange('buffer', `at least ${bytes} bytes long, as the value is`, impl.byteLength)
  const expected = (): string => `from 0 to ${most}: ${impl} ends there, and the value has ${bytes} bytes`
  checkInteger(byteOffset, 'options.byteOffset', 0, most, expected)
  if ((impl.pointer + byteOffset) % bytes !== 0) {
    throw invalidValue(
      `A value of ${bytes} bytes must begin at a multiple of them, and byte ${byteOffset} of ${impl} does not`,
    )
  }
  stream.reserve(1)
  const open = impl.openFor(stream.driver)
  refusePool(open)
  const pointer = open.pointer + byteOffset
  queueWith(stream, [open], () => call({ ...word, pointer }))
}

/** A number has 32 bits, a bigint 64. */
function checkValue(value: unknown): Pick<MemoryValue, 'bits' | 'value'> {
  if (typeof value === 'bigint') {
    if (value < -(2n ** 63n) || value >= 2n ** 64n) {
      throw outOfRange('value', 'from -2n ** 63n to 2n ** 64n - 1n (a bigint has 64 bits)', value)
    }
    return { bits: 64, value: BigInt.asUintN(64, value) }
  }
  if (typeof value !== 'number') throw invalidType('value', 'a number (32 bits) or a bigint (64 bits)', value)
  checkInteger(value, 'value', -(2 ** 31), 2 ** 32 - 1, () => 'from -2 ** 31 to 2 ** 32 - 1: for 64 bits pass a bigint')
  return { bits: 32, value: BigInt.asUintN(32, BigInt(value)) }
}

type Ability = 'canUse64BitStreamMemOps' | 'canUseStreamWaitValueNor'
/** Devices known to have the ability: querying the attribute costs more than the call. */
const capable: { readonly [A in Ability]: WeakSet<Device> } = {
  canUse64BitStreamMemOps: new WeakSet(),
  canUseStreamWaitValueNor: new WeakSet(),
}

function need({ driver, ordinal, device }: StreamImpl, attribute: Ability, what: string): void {
  if (capable[attribute].has(device)) return
  if (driver.devices.attribute(ordinal, DEVICE_ATTRIBUTES[attribute]) !== 0) {
    capable[attribute].add(device)
    return
  }
  throw stateError('ERR_UNSUPPORTED', `${device} has no ${what}: its attribute ${attribute} is 0`)
}

/** CUDA refuses memory of a pool for this, which is what `cuMemAllocAsync` allocates. */
function refusePool(impl: BufferImpl): void {
  if (!(impl.allocation instanceof DeviceAllocation)) return
  const way = 'take device.allocPinned(byteLength), or device.alloc(byteLength, { interprocess: true })'
  throw stateError(
    'ERR_UNSUPPORTED',
    `${impl} is memory of a pool, where CUDA can neither wait for a value nor write one: ${way}`,
  )
}
