/**
 * Keeps memory of JavaScript where it is, so that a GPU may use it. V8 never moves the memory of an ArrayBuffer, but gives it to
 * another one where it is transferred, and frees it with that one.
 */
import { isMarkedAsUntransferable, markAsUntransferable } from '#platform'
import { describe, invalidValue, stateError } from '../base/errors.js'

const TRANSFERS = ['transfer', 'transferToFixedLength'] as const

/** More bytes than a process can have. */
const TOO_MANY = Number.MAX_SAFE_INTEGER
/** The function of the language; Node 20 has none. */
const transfer: unknown = Reflect.get(ArrayBuffer.prototype, TRANSFERS[0])

let marks: boolean | undefined

/**
 * A function that keeps it in place, for good: what marks an ArrayBuffer cannot be taken back.
 * @throws ERR_UNSUPPORTED where it cannot be kept
 */
export function keeperOf(buffer: ArrayBufferLike): () => void {
  // A page has that class only where it is isolated from those of other origins.
  if (typeof SharedArrayBuffer === 'function' && buffer instanceof SharedArrayBuffer) return () => {}
  if (Reflect.get(buffer, 'resizable') === true) {
    throw stateError(
      'ERR_UNSUPPORTED',
      'A resizable ArrayBuffer cannot be registered: its memory may go while a GPU uses it',
    )
  }
  marks ??= marksWork()
  if (!marks || !Object.isExtensible(buffer)) {
    throw stateError(
      'ERR_UNSUPPORTED',
      `${describe(buffer)} cannot be kept from being transferred here: register a SharedArrayBuffer`,
    )
  }
  if (isOfWebAssembly(buffer)) {
    throw stateError(
      'ERR_UNSUPPORTED',
      'The ArrayBuffer of a WebAssembly.Memory cannot be registered: its memory goes where that grows. Make it with { shared: true }',
    )
  }
  return () => {
    markAsUntransferable(buffer)
    for (const name of TRANSFERS) {
      if (name in buffer) Object.defineProperty(buffer, name, { value: stays })
    }
  }
}

/** Of all ArrayBuffers that nobody has marked, only those cannot be transferred; in Node 20 the question has no answer. */
function isOfWebAssembly(buffer: ArrayBufferLike): boolean {
  if (typeof transfer !== 'function' || isMarkedAsUntransferable(buffer)) return false
  try {
    transfer.call(buffer, TOO_MANY)
    return false
  } catch (error) {
    // It looks whether it may transfer before it looks for room.
    return !(error instanceof RangeError)
  }
}

function stays(): never {
  throw invalidValue('This ArrayBuffer stays where it is: its memory was registered by PinnedBuffer.from()')
}

/** Does what is marked stay, by copying or by an error? Not every run time heeds it. */
function marksWork(): boolean {
  const scratch = new ArrayBuffer(8)
  if (!markAsUntransferable(scratch)) return false
  try {
    structuredClone(scratch, { transfer: [scratch] })
  } catch {
    // Refused: so it was not transferred.
  }
  return scratch.byteLength > 0
}
