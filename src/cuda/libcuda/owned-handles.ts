/**
 * What the driver makes for a thread, and how it is given back when the thread has ended without doing so: a row for each function that makes or
 * destroys something. A new function that does needs a row here, and nothing else.
 */

import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { isContextLost } from '../../foundation/driver/cuda-results.js'
import { own } from '../../foundation/native/c-functions.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { OwnedKind, type Owning, ownerOfThread, Trait } from '../../foundation/native/owned-handles.js'
import type { SharedLibrary } from '../../foundation/native/shared-library.js'
import type { DriverFunction } from './signatures.js'

/** The function that destroys each kind, in the order in which what is left of a thread is destroyed, and what must be known of it. */
const KINDS = {
  instance: { destroy: 'cuGraphExecDestroy', traits: Trait.WAITS },
  graph: { destroy: 'cuGraphDestroy', traits: 0 },
  asyncMemory: { destroy: 'cuMemFreeAsync', traits: Trait.IN_STREAM_ORDER },
  texture: { destroy: 'cuTexObjectDestroy', traits: Trait.WAITS },
  surface: { destroy: 'cuSurfObjectDestroy', traits: Trait.WAITS },
  array: { destroy: 'cuArrayDestroy', traits: Trait.WAITS },
  memory: { destroy: 'cuMemFree_v2', traits: Trait.WAITS },
  pinned: { destroy: 'cuMemFreeHost', traits: Trait.WAITS | Trait.IS_PINNED },
  registered: { destroy: 'cuMemHostUnregister', traits: Trait.WAITS | Trait.OF_JAVASCRIPT },
  mapping: { destroy: 'cuIpcCloseMemHandle', traits: Trait.WAITS | Trait.IS_COUNTED },
  pool: { destroy: 'cuMemPoolDestroy', traits: Trait.IS_POOL },
  event: { destroy: 'cuEventDestroy_v2', traits: Trait.IS_EVENT },
  stream: { destroy: 'cuStreamDestroy_v2', traits: Trait.IS_STREAM },
  module: { destroy: 'cuModuleUnload', traits: Trait.WAITS },
  greenContext: { destroy: 'cuGreenCtxDestroy', traits: 0 },
} as const satisfies Readonly<Record<string, { readonly destroy: DriverFunction; readonly traits: number }>>
export type KindName = keyof typeof KINDS

/** The functions that make something, where each writes or gets the handle, and the position of a length or of the stream of an allocation. */
export const MAKERS: Readonly<
  Partial<Record<DriverFunction, readonly [kind: KindName, role: 'made' | 'given', argument: number, more?: number]>>
> = {
  cuGraphInstantiateWithFlags: ['instance', 'made', 0],
  cuStreamEndCapture: ['graph', 'made', 1],
  cuMemAllocAsync: ['asyncMemory', 'made', 0, 2],
  cuMemAllocFromPoolAsync: ['asyncMemory', 'made', 0, 3],
  cuMemAlloc_v2: ['memory', 'made', 0, 1],
  cuArray3DCreate_v2: ['array', 'made', 0],
  cuTexObjectCreate: ['texture', 'made', 0],
  cuSurfObjectCreate: ['surface', 'made', 0],
  cuMemHostAlloc: ['pinned', 'made', 0, 1],
  cuMemHostRegister_v2: ['registered', 'given', 0, 1],
  cuMemPoolCreate: ['pool', 'made', 0],
  cuEventCreate: ['event', 'made', 0],
  // In place of the length stand the flags, or the green context: native/leaving.c frees memory on a stream that is non-blocking and in none.
  cuStreamCreateWithPriority: ['stream', 'made', 0, 1],
  cuGreenCtxStreamCreate: ['stream', 'made', 0, 1],
  cuModuleLoadData: ['module', 'made', 0],
  cuGreenCtxCreate: ['greenContext', 'made', 0],
}

/** What the native layer calls itself, in the order of the struct GivingBack in native/owned.h. */
const CALLED_IN_C = [
  'cuCtxSetCurrent',
  'cuCtxGetCurrent',
  'cuThreadExchangeStreamCaptureMode',
  'cuStreamQuery',
  'cuStreamIsCapturing',
  'cuStreamDestroy_v2',
  'cuStreamSynchronize',
  'cuEventCreate',
  'cuEventRecord',
  'cuEventQuery',
  'cuEventDestroy_v2',
  'cuCtxRecordEvent',
  'cuMemPoolGetAttribute',
  'cuMemPoolTrimTo',
  'cuMemPoolSetAttribute',
  'cuMemAllocAsync',
  'cuMemAllocFromPoolAsync',
  'cuMemFreeAsync',
  'cuStreamWaitEvent',
] as const satisfies readonly DriverFunction[]

/** How much pinned memory the process keeps for the next request at most, and for how long if nobody asks for it. */
export const KEPT_PINNED = { bytes: 256 * 1024 * 1024, milliseconds: 30_000 }

/** Results among which are those of a lost context: native/owned.h has the same. */
const LOST = { first: 700, count: 104 }

export type OwnedKinds = { readonly [kind in KindName]: OwnedKind }

/** The kinds of handles, and what each function makes or destroys. */
export function ownedHandles(libcuda: SharedLibrary): {
  readonly kinds: OwnedKinds
  readonly owning: ReadonlyMap<string, Owning>
} {
  const functions = new NativeMemory(8 * CALLED_IN_C.length + LOST.count)
  for (const [index, name] of CALLED_IN_C.entries()) functions.setPointer(8 * index, libcuda.addressOf(name))
  const areLost = functions.bytes.subarray(8 * CALLED_IN_C.length)
  for (const index of areLost.keys()) areLost[index] = isContextLost(LOST.first + index) ? 1 : 0
  own().giveBackBy(functions.address)
  functions.free()
  // Registered before all other hooks at the end of a thread, this one runs behind them: by then its host functions are signalled.
  const owner = ownerOfThread()
  own().waitAtEnd(owner, VARIABLES.deadlockTimeout.read())
  const owning = new Map<string, Owning>()
  const rows = Object.entries(KINDS).map(([name, { destroy, traits }], rank) => {
    const kind = new OwnedKind(libcuda.addressOf(destroy), destroy.replace(/_v\d+$/, ''), traits | rank)
    owning.set(destroy, { kind, role: 'destroyed', argument: 0 })
    return [name, kind] as const
  })
  const kinds = Object.fromEntries(rows) as OwnedKinds
  own().notePinned(kinds.pinned.number, KEPT_PINNED.bytes, KEPT_PINNED.milliseconds)
  for (const [name, [kind, role, argument, more]] of Object.entries(MAKERS))
    owning.set(name, { kind: kinds[kind], role, argument, ...(more === undefined ? {} : { more }) })
  return { kinds, owning }
}
