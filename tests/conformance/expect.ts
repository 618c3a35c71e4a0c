/** What the conformance tests assert again and again, and how they look at a capture and at the garbage collector. */
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { inspect } from 'node:util'
import { CudaError, type Device, type Stream } from 'cuda-streams'
import { driverOf } from '../../src/core/device.js'
import { openStream } from '../../src/core/streams/stream-impl.js'
import type { StreamHandle } from '../../src/foundation/driver/handle-types.js'
import { byEffort } from '../helpers/effort.js'
import type { Workbench } from '../helpers/workbench.js'

export interface CodedError extends Error {
  readonly code: string
}

/** The class that the contract gives each code. */
function classOf(code: string): new (...args: never[]) => Error {
  if (code.startsWith('CUDA_')) return CudaError
  if (code.startsWith('ERR_INVALID_ARG')) return TypeError
  return code === 'ERR_OUT_OF_RANGE' ? RangeError : Error
}

/** Asserts the code, the class that goes with it, and that the message says what it must. */
export function checkError(error: unknown, code: string, ...says: readonly RegExp[]): CodedError {
  assert.ok(error instanceof Error, `an Error was expected, not ${inspect(error)}`)
  const coded = error as CodedError
  assert.equal(coded.code, code, `${coded.name} ${coded.code}: ${coded.message}`)
  assert.ok(error instanceof classOf(code), `${code} must be a ${classOf(code).name}, not a ${error.name}`)
  assert.equal(error instanceof CudaError, code.startsWith('CUDA_'), 'a CudaError is what the driver refused')
  for (const pattern of says) assert.match(coded.message, pattern)
  const [prefix = coded.message] = /^\w+: /.exec(coded.message) ?? []
  assert.equal(coded.message.split(prefix).length, 2, `what a message is about stands once in it: ${coded.message}`)
  assert.doesNotMatch(coded.message, /'([^']+)'[^']*: did you mean '\1'/, 'what was given is not what was meant')
  return coded
}

/** Runs what must be refused with this code and a message that matches each pattern. Returns the error. */
export function refused(act: () => unknown, code: string, ...says: readonly RegExp[]): CodedError {
  let result: unknown
  try {
    result = act()
  } catch (error) {
    return checkError(error, code, ...says)
  }
  return assert.fail(`${code} was expected, but the call returned ${inspect(result)}`)
}

/** As `refused`, for a promise; the call itself must not throw. */
export async function rejected(act: () => Promise<unknown>, code: string, ...says: readonly RegExp[]) {
  const promise = act()
  try {
    await promise
  } catch (error) {
    return checkError(error, code, ...says)
  }
  return assert.fail(`${code} was expected, but the promise was fulfilled`)
}

/** What the driver refuses: a CudaError with this CUresult. */
export function refusedByDriver(act: () => unknown, number: number): CudaError {
  try {
    act()
  } catch (error) {
    return checkCudaError(error, number)
  }
  return assert.fail(`CUresult ${number} was expected, but the call succeeded`)
}

export function checkCudaError(error: unknown, number: number): CudaError {
  assert.ok(error instanceof CudaError, `a CudaError was expected, not ${inspect(error)}`)
  assert.equal(error.number, number, error.message)
  assert.match(error.code, /^CUDA_ERROR_[A-Z_]+$/)
  assert.match(error.call, /^cu[A-Z]\w+$/)
  return error
}

/** A stream that a refused call left as it was takes work and completes it. */
export function stillWorks(bench: Workbench, stream: Stream): void {
  bench.busy(stream, 1000)
  const event = stream.record()
  stream.synchronize()
  assert.equal(stream.query(), true)
  assert.equal(event.query(), true)
  event.close()
}

/** Lets the event loop turn: what is ready gets its chance, and what is held does not. */
export async function turns(count = 20): Promise<void> {
  for (let left = count; left > 0; left -= 1) await turn()
}

/** Lets the event loop turn until the condition holds, however long the machine takes. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await turn()
}

/** Follows a promise without waiting for it. */
export function follow(promise: Promise<unknown>): { readonly settled: boolean } {
  const state = { settled: false }
  const settle = (): void => {
    state.settled = true
  }
  promise.then(settle, settle)
  return state
}

/** Collections after which what is still there is kept for good, where the tests expect that: nearly all goes in the first. */
const COLLECTIONS = byEffort({ quick: 4, normal: 4, nightly: 30 })

/** Collects garbage, and says whether the condition came to hold. For what must stay, so that it takes all collections. */
export const collected = (holds: () => boolean): Promise<boolean> => collectUntil(holds, COLLECTIONS)

/** Collects garbage until the condition holds; false if it never does. */
export async function collectUntil(holds: () => boolean, most = 30): Promise<boolean> {
  const { gc } = globalThis
  assert.ok(gc, 'run the tests with --expose-gc')
  for (let round = 0; round < most; round += 1) {
    // What was looked at stays alive until its turn of the event loop is over.
    await turns(3)
    gc()
    await turns(3)
    if (holds()) return true
  }
  return false
}

/** The second device, where there is one. */
export function secondDevice(bench: Workbench): Device | undefined {
  return bench.devices[1]
}
export const ONE_DEVICE = 'this machine has only one device'

export const CAPTURE_MODES = [
  ['global', 0],
  ['threadLocal', 1],
  ['relaxed', 2],
] as const
export type CaptureMode = (typeof CAPTURE_MODES)[number][1]

/** Begins a capture through the internal driver. The test must end it. */
export function beginCapture(stream: Stream, mode: CaptureMode): { end(): number } {
  const driver = driverOf(stream.device)
  const handle: StreamHandle = openStream(stream).handle
  driver.graphs.begin(handle, mode)
  return { end: () => driver.graphs.end(handle) }
}

/** Ends a capture that a failed test may have left. */
export function endQuietly(stream: Stream, capture: { end(): number }): void {
  try {
    if (stream.isCapturing) capture.end()
  } catch {
    // It was invalidated, which the test that left it has reported already.
  }
}

/** Calls the function inside a host function of the stream, which is run to its end. */
export function insideHostFunction(stream: Stream, act: () => void): void {
  let hasEnded = false
  stream.launchHostFunc(() => {
    act()
    hasEnded = true
  })
  stream.synchronize()
  assert.ok(hasEnded, 'the host function has run to its end')
}
