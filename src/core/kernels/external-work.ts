/** Work that other code queues on a stream of this library: a library called through an FFI, say, by CUDA's own handle. */
import {
  checkArray,
  checkChoice,
  checkFunction,
  checkNanoseconds,
  type Given,
  readOptions,
} from '../../foundation/base/arguments.js'
import { invalidType } from '../../foundation/base/errors.js'
import { printable } from '../../foundation/base/printable.js'
import { LIBRARY_ENTRIES } from '../../foundation/driver/driver-constants.js'
import type { HostImplementation } from '../../foundation/driver/library-driver.js'
import type { Access } from '../../foundation/driver/touched-memory.js'
import { BufferImpl, isMemory, openMemory } from '../memory/buffer.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { PinnedBuffer } from '../memory/pinned-buffer.js'
import { queueWith } from '../memory/queue-with-memory.js'
import type { StreamImpl } from '../streams/stream-impl.js'

/** Memory that other code is about to use on the stream. */
export interface ExternalMemory {
  /** A buffer of the stream's driver. */
  readonly buffer: DeviceBuffer | PinnedBuffer
  /** Is the memory read, written or both, or only touched by atomic operations? Default 'inout'. */
  readonly access?: Access | undefined
}

/** The description of work of other code, for `stream.external()`. */
export interface ExternalWork {
  /** The name of the work in the reports of the sanitizer and in timelines. */
  readonly name: string
  /** The memory that the work uses: these buffers can be closed as soon as it is queued. Default: none. */
  readonly memory?: readonly ExternalMemory[] | undefined
  /**
   * The host implementation of the work, for the simulator: gets the bytes of each piece of memory, in their order, when the
   * work would be done. An error that it throws is an uncaught exception.
   */
  readonly simulate?: ((bytes: readonly Uint8Array[]) => void) | undefined
  /** Virtual nanoseconds that the work takes on the simulator: from 0 to 2 ** 53 - 1. Default 1000. */
  readonly nanoseconds?: number | undefined
}

interface GivenMemory {
  readonly buffer: DeviceBuffer | PinnedBuffer
  readonly access: Access
}

const ACCESSES: readonly Access[] = ['in', 'out', 'inout', 'atomic']
const DURATION = 1000
const WHOLE = { argument: undefined, rows: undefined }
const WORK = ['name', 'memory', 'simulate', 'nanoseconds'] as const

/** `stream.external()`. */
export function queueExternal(stream: StreamImpl, work: ExternalWork, call: (handle: bigint) => void): void {
  if (work === undefined) throw invalidType('work', 'an object such as { name, memory }', work)
  const given = readOptions(work, WORK, 'work')
  const { name, memory: touched = [] } = given
  if (typeof name !== 'string') throw invalidType('work.name', 'a string', name)
  checkFunction(call, 'call')
  const host = hostImplementationOf(given)
  const pieces = checkArray(touched, 'work.memory', 'an array of { buffer, access }').map(readMemory)
  stream.reserve(LIBRARY_ENTRIES)
  const { driver, handle, context } = stream
  const impls = pieces.map(({ buffer }) => openMemory(buffer, driver))
  const memory = impls.map(({ allocation, pointer, byteLength }, index) => {
    return { allocation, pointer, byteLength, access: pieces[index]?.access ?? 'inout', ...WHOLE }
  })
  stream.escape()
  const queued = {
    name: printable(name),
    stream: handle,
    context,
    memory,
    host,
    call: (stream: number) => call(BigInt(stream)),
  }
  const queue = (): void =>
    void queueWith(stream, memory, () => driver.work.queue({ kind: 'library', calls: [queued] }))
  stream.keepDuring(() => BufferImpl.retainDuring(impls, queue))
}

function readMemory(each: unknown, index: number): GivenMemory {
  const name = `work.memory[${index}]`
  const { buffer, access = 'inout' } = readOptions(each as ExternalMemory | undefined, ['buffer', 'access'], name)
  if (!isMemory(buffer)) throw invalidType(`${name}.buffer`, 'a DeviceBuffer or a PinnedBuffer', buffer)
  return { buffer, access: checkChoice(access, `${name}.access`, ACCESSES) }
}

function hostImplementationOf({
  simulate,
  nanoseconds,
}: Given<ExternalWork, 'simulate' | 'nanoseconds'>): HostImplementation | undefined {
  const duration = nanoseconds === undefined ? DURATION : checkNanoseconds(nanoseconds, 'work.nanoseconds')
  if (simulate === undefined) return undefined
  checkFunction(simulate, 'work.simulate')
  return { nanoseconds: duration, run: (bytes) => simulate(bytes) }
}
