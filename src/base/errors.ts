/**
 * Every error of the library. Our own checks carry a Node-style `code`; a refusal of the driver is a `CudaError`.
 * The contract behind them is docs/errors.md.
 */
import { CUSTOM_INSPECT, inspect } from '#platform'
import { beginning, printableLines } from './printable.js'

/**
 * An error that a wait has met. The next call reports a fault of the GPU, though it has nothing to do with it; so the
 * error names the work that was waited for. An error that is no CudaError is returned unchanged.
 */
export let heardFrom: (error: unknown, whom: string) => unknown

/** What a driver or a library refused; an explanation may quote text of the program. */
function refusalText(call: string, number: number, code: string, explanation: string | undefined): string {
  return printableLines(`${call} failed: ${code} (${number})${explanation === undefined ? '' : `. ${explanation}`}`)
}

/** A refusal of the CUDA driver. Match on `code` or `number`; the message is for people. */
export class CudaError extends Error {
  /** The CUresult's name, such as 'CUDA_ERROR_INVALID_HANDLE'. */
  readonly code: string
  /** The CUresult itself, such as 400. */
  readonly number: number
  /** The driver function that returned it, such as 'cuStreamWaitEvent'. */
  readonly call: string

  readonly #explanation: string | undefined

  /**
   * Made by the library.
   * @param call The driver function.
   * @param number The CUresult.
   * @param code The name of the CUresult.
   * @param explanation Added to the message.
   */
  constructor(call: string, number: number, code: string, explanation?: string) {
    super(refusalText(call, number, code, explanation))
    this.code = code
    this.number = number
    this.call = call
    this.#explanation = explanation
  }

  static {
    CudaError.prototype.name = 'CudaError'
    heardFrom = (error, whom) => {
      if (!(error instanceof CudaError)) return error
      const where = `Heard while waiting for ${whom}`
      return explained(error, error.#explanation === undefined ? where : `${error.#explanation}. ${where}`)
    }
  }
}

/** The same error with another explanation. */
export function explained({ call, number, code }: CudaError, explanation: string): CudaError {
  return new CudaError(call, number, code, explanation)
}

/** A refusal of a library such as cuBLAS or NCCL. Match on `code` or `number`; the message is for people. */
export class LibraryError extends Error {
  /** The library's own name of the result, such as 'CUBLAS_STATUS_NOT_SUPPORTED' or 'ncclRemoteError'. */
  readonly code: string
  /** The result itself, such as 15. */
  readonly number: number
  /** The function that returned it, such as 'cublasGemmEx'. */
  readonly call: string

  /**
   * Made by the library.
   * @param call The function of cuBLAS or NCCL.
   * @param number Its result.
   * @param code The name of the result.
   * @param explanation Added to the message.
   */
  constructor(call: string, number: number, code: string, explanation?: string) {
    super(refusalText(call, number, code, explanation))
    this.code = code
    this.number = number
    this.call = call
  }

  static {
    LibraryError.prototype.name = 'LibraryError'
  }
}

export type StateCode =
  | 'ERR_CLOSED'
  | 'ERR_DEVICE_MISMATCH'
  | 'ERR_INVALID_HANDLE'
  | 'ERR_BLOCKS_EVENT_LOOP'
  | 'ERR_DEADLOCK'
  | 'ERR_NO_DRIVER'
  | 'ERR_UNSUPPORTED'
  | 'ERR_COMPILATION'

/** What a message quotes may have any characters. */
function made<E extends Error>(type: new (message: string) => E, code: string, message: string): E & { code: string } {
  return Object.assign(new type(printableLines(message)), { code })
}

/** A mistake of state: the arguments were of the right form, but this cannot be done now. */
export function stateError(code: StateCode, message: string, cause?: unknown): Error & { code: string } {
  const text = printableLines(message)
  return Object.assign(cause === undefined ? new Error(text) : new Error(text, { cause }), { code })
}

/** `way` is the way out, where the expectation does not show it. */
export function invalidType(
  name: string,
  expected: string,
  given: unknown,
  way?: string,
): TypeError & { code: string } {
  const what = `${name} must be ${expected}, not ${describe(given)}`
  return made(TypeError, 'ERR_INVALID_ARG_TYPE', way === undefined ? what : `${what}: ${way}`)
}

/** A member was called on an object that is not of its class. */
export function invalidReceiver(expected: string, given: unknown): TypeError & { code: string } {
  const why = 'a method taken from its object does not work, nor does a proxy or an heir of the object'
  const what = `This must be called on ${expected} itself, not on ${describe(given)}`
  return made(TypeError, 'ERR_INVALID_ARG_TYPE', `${what}: ${why}`)
}

/** Throws `invalidReceiver`: for the right side of a `??`. */
export function refuseReceiver(expected: string, given: unknown): never {
  throw invalidReceiver(expected, given)
}

export function invalidValue(message: string): TypeError & { code: string } {
  return made(TypeError, 'ERR_INVALID_ARG_VALUE', message)
}

export function outOfRange(name: string, expected: string, given: unknown): RangeError & { code: string } {
  return made(RangeError, 'ERR_OUT_OF_RANGE', `${name} must be ${expected}, not ${describe(given)}`)
}

/** For `toString()` of an object that only has the prototype of a class, as the prototype itself does. */
export function printed(value: unknown): string {
  try {
    return Object.prototype.toString.call(value)
  } catch {
    return describe(value)
  }
}

/** Lets `console.log()` show the objects of a class as they print themselves. */
export function inspectAsPrinted({ prototype }: { readonly prototype: object }): void {
  const value = function (this: unknown): string {
    try {
      return String(this)
    } catch {
      return describe(this)
    }
  }
  Object.defineProperty(prototype, CUSTOM_INSPECT, { configurable: true, writable: true, value })
}

/** What was thrown, in words. */
export const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown))

/** A value as it reads in an error message: short, and never a throw, even where the value throws when looked at. */
export function describe(value: unknown): string {
  try {
    if (typeof value === 'function') return `function ${value.name || '(anonymous)'}`
    const text = inspect(value, { depth: 0, breakLength: Number.POSITIVE_INFINITY, customInspect: false })
    return text.length > 80 ? `${beginning(text, 77)}...` : text
  } catch {
    return `a value of type ${typeof value}`
  }
}
