/** Calls of ranks on their way to NCCL: made at once, or by another thread where they wait for other ranks. */
import { performance } from 'node:perf_hooks'
import type { Driver, LibraryCall } from '../../driver/driver.js'
import type { NcclHandle, NcclOperation } from './nccl-handle.js'
import type { NcclFunction, ThreadedCall } from './nccl-library.js'
import type { OpenOperation } from './simulated-nccl.js'

type Call = ThreadedCall & { readonly name: NcclFunction }

export const operationsOf = (parts: readonly OpenOperation[]): readonly NcclOperation[] =>
  parts.map(({ operation }) => operation)

/** Queues calls that belong together. */
export function queueReal(driver: Driver, parts: readonly OpenOperation[]): void {
  const halves = parts.filter(({ operation }) => operation.handle.hasHalf)
  // NCCL takes no two kinds of communicators in one group.
  const kinds = halves.length === 0 ? [parts] : [parts.filter((part) => !halves.includes(part)), halves]
  for (const kind of kinds) {
    const [first] = kind
    if (first !== undefined) queueOfOneKind(driver, kind, first)
  }
}

function queueOfOneKind(driver: Driver, parts: readonly OpenOperation[], first: OpenOperation): void {
  const handles = [...new Set(parts.map(({ operation }) => operation.handle))]
  const { name, handle } = first.operation
  const { hasHalf } = handle
  /** Set while calls are not made, but gathered for another thread. */
  let gathered: Call[] | undefined
  const make = (call: Call): void => {
    if (gathered === undefined) handle.library.call(call.name, ...call.args)
    else gathered.push(call)
  }
  const calls = parts.map(({ operation, use, memory }): LibraryCall => {
    const { handle: stream, context } = use
    const pointers = memory.map(({ pointer }) => pointer)
    const call = (raw: number): void =>
      make({ name: operation.name, context, args: operation.argumentsFor(pointers, raw) })
    return { name: operation.name, stream, context, memory, call, host: undefined }
  })
  const together = (makeAll: () => void): void => {
    const since = performance.now()
    const areDone = (): boolean => handles.every((each) => isQueued(each, name, since))
    const wait = (): void => {
      if (!areDone()) driver.libraries.waitUntil(areDone, `${name}()`)
    }
    try {
      // This may be a host function that runs while an earlier call waits: NCCL accepts one at a time.
      wait()
      if (hasHalf && !handles.every((each) => waitsForNobody(each, parts))) gathered = []
      inGroup(make, first.use.context, parts.length, makeAll)
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
  driver.queue({ kind: 'library', calls, together })
}

/** A captured call waits for other ranks where NCCL registers its memory with them. */
const waitsForNobody = (handle: NcclHandle, parts: readonly OpenOperation[]): boolean => {
  const own = parts.filter(({ operation }) => operation.handle === handle)
  return own.every(({ use }) => !use.driver.streamIsCapturing(use.handle)) && handle.waitsForNobody(operationsOf(own))
}

/** NCCL's group ends also if a call in it is refused, since NCCL counts groups by thread. */
function inGroup(make: (call: Call) => void, context: ThreadedCall['context'], count: number, calls: () => void): void {
  if (count === 1) {
    calls()
    return
  }
  const end = (): void => make({ name: 'ncclGroupEnd', context, args: [] })
  make({ name: 'ncclGroupStart', context, args: [] })
  try {
    calls()
  } catch (refused) {
    try {
      end()
    } catch {
      // NCCL reports the same error again.
    }
    throw refused
  }
  end()
}

function isQueued(handle: NcclHandle, call: string, since: number): boolean {
  if (handle.isDone(call)) return true
  handle.checkTime(since, call)
  return false
}
