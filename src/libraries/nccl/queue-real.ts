/** Calls of ranks on their way to NCCL: made at once, or by another thread where they wait for other ranks. */

import type { StreamImpl } from '../../core/streams/stream-impl.js'
import { monotonicTime } from '../../foundation/base/event-loop.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { ContextHandle } from '../../foundation/driver/handle-types.js'
import type { LibraryCall } from '../../foundation/driver/library-driver.js'
import type { NcclHandle, NcclOperation } from './nccl-handle.js'
import type { NcclFunction, ThreadedCall } from './nccl-library.js'
import type { OpenOperation } from './simulated-nccl.js'

type Call = ThreadedCall & { readonly name: NcclFunction }

/** The operations of one rank, among those of several. */
export function operationsOf(handle: NcclHandle, parts: readonly OpenOperation[]): readonly NcclOperation[] {
  const own: NcclOperation[] = []
  for (const { operation } of parts) if (operation.handle === handle) own.push(operation)
  return own
}

export function handlesOf(operations: readonly NcclOperation[]): readonly NcclHandle[] {
  const handles: NcclHandle[] = []
  for (const { handle } of operations) if (!handles.includes(handle)) handles.push(handle)
  return handles
}

/** Queues calls that belong together. `captures` tells of a stream whether it captures. */
export function queueReal(driver: Driver, parts: readonly OpenOperation[], captured: readonly StreamImpl[]): void {
  const [first] = parts
  if (first === undefined) return
  const { hasHalf } = first.operation.handle
  if (parts.every(({ operation }) => operation.handle.hasHalf === hasHalf)) {
    queueOfOneKind(driver, parts, first, captured)
    return
  }
  // NCCL takes no two kinds of communicators in one group.
  for (const kind of [false, true]) {
    const some = parts.filter(({ operation }) => operation.handle.hasHalf === kind)
    queueReal(driver, some, captured)
  }
}

function queueOfOneKind(
  driver: Driver,
  parts: readonly OpenOperation[],
  first: OpenOperation,
  captured: readonly StreamImpl[],
): void {
  const handles = handlesOf(parts.map(({ operation }) => operation))
  const { name, handle } = first.operation
  const { library } = handle
  /** The calls that are gathered for another thread; undefined while calls are made at once. */
  let gathered: Call[] | undefined
  const make = (called: NcclFunction, context: ContextHandle, args: readonly number[]): void => {
    if (gathered === undefined) library.call(called, ...args)
    else gathered.push({ name: called, context, args })
  }
  const calls = parts.map(({ operation, use, memory }): LibraryCall => {
    const { handle: stream, context } = use
    const call = (raw: number): void => make(operation.name, context, operation.argumentsFor(memory, raw))
    return { name: operation.name, stream, context, memory, inAnyContext: true, call, host: undefined }
  })
  const together = (makeAll: () => void): void => {
    const since = monotonicTime()
    const areDone = (): boolean => handles.every((each) => isQueued(each, name, since))
    const wait = (): void => {
      if (!areDone()) driver.libraries.waitUntil(areDone, `${name}()`)
    }
    try {
      // This may be a host function that runs while an earlier call waits: NCCL accepts one at a time.
      wait()
      // A captured call waits for other ranks where NCCL registers its memory with them.
      const waitsForNobody = (each: NcclHandle): boolean => each.waitsForNobody(operationsOf(each, parts))
      const isAtOnce =
        handle.hasHalf && !parts.some(({ use }) => captured.includes(use)) && handles.every(waitsForNobody)
      if (handle.hasHalf && !isAtOnce) gathered = []
      inGroup(make, first.use.context, parts.length, makeAll)
      if (isAtOnce) return
      if (gathered !== undefined) {
        const threaded = handle.makeOnThread(gathered)
        for (const each of handles) each.joinThread(threaded)
      }
      wait()
    } catch (error) {
      for (const each of handles) each.fail(error)
      throw error
    }
  }
  driver.work.queue({ kind: 'library', calls, together })
}

/** NCCL's group ends also if a call in it is refused, since NCCL counts groups by thread. */
function inGroup(
  make: (name: NcclFunction, context: ContextHandle, args: readonly number[]) => void,
  context: ContextHandle,
  count: number,
  calls: () => void,
): void {
  if (count === 1) {
    calls()
    return
  }
  make('ncclGroupStart', context, NO_ARGUMENTS)
  try {
    calls()
  } catch (refused) {
    try {
      make('ncclGroupEnd', context, NO_ARGUMENTS)
    } catch {
      // NCCL reports the same error again.
    }
    throw refused
  }
  make('ncclGroupEnd', context, NO_ARGUMENTS)
}

const NO_ARGUMENTS: readonly number[] = []

function isQueued(handle: NcclHandle, call: string, since: number): boolean {
  if (handle.isDone(call)) return true
  handle.checkTime(since, call)
  return false
}
