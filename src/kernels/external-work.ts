/** Work that other code queues on a stream of ours: a library called through an FFI, say, by CUDA's own handle. */
import { checkArray, checkFunction, checkNanoseconds, type Given, readOptions } from '../base/arguments.js'
import { describe, invalidType, invalidValue } from '../base/errors.js'
import { type Access, LIBRARY_ENTRIES, type LibraryTwin } from '../driver/driver.js'
import { isMemory, openMemory } from '../memory/buffer.js'
import { BufferCore } from '../memory/buffer-core.js'
import type { DeviceBuffer } from '../memory/device-buffer.js'
import type { PinnedBuffer } from '../memory/pinned-buffer.js'
import { queueWith } from '../memory/queue-with-memory.js'
import type { StreamCore } from '../streams/stream-core.js'

/** Memory that other code is about to touch on the stream. */
export interface ExternalMemory {
  /** Of the same driver as the stream. */
  readonly buffer: DeviceBuffer | PinnedBuffer
  /** Whether it is read, written or both. Default 'inout'. */
  readonly access?: Access | undefined
}

/** What `stream.external()` is told of the work. */
export interface ExternalWork {
  /** What the sanitizer and the timeline call it. */
  readonly name: string
  /** What it touches: these buffers can be closed as soon as it is queued. Default: none. */
  readonly memory?: readonly ExternalMemory[] | undefined
  /**
   * The same in JavaScript, for the simulator: gets the bytes of each piece of memory, in their order, when the work
   * would be done. What it throws is an uncaught exception.
   */
  readonly simulate?: ((bytes: readonly Uint8Array[]) => void) | undefined
  /** Virtual nanoseconds that it takes on the simulator: from 0 to 2 ** 53 - 1. Default 1000. */
  readonly nanoseconds?: number | undefined
}

interface GivenMemory {
  readonly buffer: DeviceBuffer | PinnedBuffer
  readonly access: Access
}

const ACCESSES: readonly Access[] = ['in', 'out', 'inout']
const DURATION = 1000
const WORK = ['name', 'memory', 'simulate', 'nanoseconds'] as const

/** `stream.external()`. */
export function queueExternal(stream: StreamCore, work: ExternalWork, call: (handle: bigint) => void): void {
  if (work === undefined) throw invalidType('work', 'an object such as { name, memory }', work)
  const given = readOptions(work, WORK, 'work')
  const { name, memory: touched = [] } = given
  if (typeof name !== 'string') throw invalidType('work.name', 'a string', name)
  checkFunction(call, 'call')
  const twin = twinOf(given)
  const pieces = checkArray(touched, 'work.memory', 'an array of { buffer, access }').map(readMemory)
  stream.makeRoom(LIBRARY_ENTRIES)
  const { driver, handle, context } = stream
  const cores = pieces.map(({ buffer }) => openMemory(buffer, driver))
  const memory = cores.map(({ allocation, pointer, byteLength }, index) => {
    return { allocation, pointer, byteLength, access: pieces[index]?.access ?? 'inout' }
  })
  driver.streamHandedOut(handle)
  const queued = { name, stream: handle, context, memory, twin, call: (stream: number) => call(BigInt(stream)) }
  const queue = (): void => queueWith(stream, memory, () => driver.libraries.queue([queued]))
  stream.keepWhile(() => BufferCore.keepAll(cores, queue))
}

function readMemory(each: unknown, index: number): GivenMemory {
  const name = `work.memory[${index}]`
  const { buffer, access = 'inout' } = readOptions(each as ExternalMemory | undefined, ['buffer', 'access'], name)
  if (!isMemory(buffer)) throw invalidType(`${name}.buffer`, 'a DeviceBuffer or a PinnedBuffer', buffer)
  if (!ACCESSES.includes(access)) {
    throw invalidValue(`${name}.access must be 'in', 'out' or 'inout', not ${describe(access)}`)
  }
  return { buffer, access }
}

function twinOf({ simulate, nanoseconds }: Given<ExternalWork, 'simulate' | 'nanoseconds'>): LibraryTwin | undefined {
  const duration = nanoseconds === undefined ? DURATION : checkNanoseconds(nanoseconds, 'work.nanoseconds')
  if (simulate === undefined) return undefined
  checkFunction(simulate, 'work.simulate')
  return { nanoseconds: duration, run: (bytes) => simulate(bytes) }
}
