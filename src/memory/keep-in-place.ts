/**
 * Keeps memory of JavaScript where it is, so that a GPU may use it. V8 never moves the memory of an ArrayBuffer, but gives it to
 * another one where it is transferred, and frees it with that one.
 */
import { markAsUntransferable } from '#platform'
import { describe, invalidValue, stateError } from '../base/errors.js'

const TRANSFERS = ['transfer', 'transferToFixedLength'] as const

let marks: boolean | undefined

/**
 * For good: what marks an ArrayBuffer cannot be taken back.
 * @throws ERR_UNSUPPORTED where it cannot be kept
 */
export function keepInPlace(buffer: ArrayBufferLike): void {
  // A page has that class only where it is isolated from those of other origins.
  if (typeof SharedArrayBuffer === 'function' && buffer instanceof SharedArrayBuffer) return
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
  markAsUntransferable(buffer)
  for (const name of TRANSFERS) {
    // One that was registered before has it already.
    const isKept = Object.getOwnPropertyDescriptor(buffer, name)?.value === stays
    if (name in buffer && !isKept) Object.defineProperty(buffer, name, { value: stays })
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
