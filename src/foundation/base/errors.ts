/**
 * All errors of the library. Its own checks throw errors with a Node-style `code`; a refusal of the driver is a `CudaError`.
 * docs/reference/errors.md is the contract.
 */
import { inspect } from './node-modules.js'
import { beginning, printableLines } from './printable.js'
import { fromCaller } from './stack.js'

/**
 * The error of a wait, which names the work that was waited for: a fault of the GPU is reported by the next call,
 * which may have nothing to do with it. An error that is no CudaError is returned unchanged.
 */
export let reportedWhileWaiting: (error: unknown, work: string) => unknown

/** The results of kernels that faulted, which CUDA returns from whatever call comes next. */
const FAULTS: readonly number[] = [700, 702, 710, 714, 715, 716, 717, 718, 719]

export const isFault = (result: number): boolean => FAULTS.includes(result)

/** The message for a result of the driver or a library. An explanation may quote text of the program. */
function resultMessage(failure: string, explanation: string | undefined): string {
  return printableLines(explanation === undefined ? failure : `${failure}. ${explanation}`)
}

/** The call that returned the result of a fault has not failed: it tells of one. */
function driverFailure(call: string, number: number, code: string, culprit = 'Earlier work'): string {
  return isFault(number)
    ? `${culprit} faulted: ${code} (${number}), which ${call} reports`
    : `${call} failed: ${code} (${number})`
}

/** The work that a CudaError says has faulted; undefined where that is not known. */
let culpritOf: (error: CudaError) => string | undefined

/** A refusal of the CUDA driver. Match on `code` or `number`; the message is for people. */
export class CudaError extends Error {
  /** The CUresult's name, such as 'CUDA_ERROR_INVALID_HANDLE'. */
  readonly code: string
  /** The CUresult itself, such as 400. */
  readonly number: number
  /** The driver function that returned it, such as 'cuStreamWaitEvent'. */
  readonly call: string

  readonly #explanation: string | undefined
  readonly #culprit: string | undefined

  /**
   * Made by the library.
   * @param call The driver function.
   * @param number The CUresult.
   * @param code The name of the CUresult.
   * @param explanation Added to the message.
   * @param culprit Of a fault: what has faulted, such as "Kernel 'axpy'". Default: earlier work.
   */
  constructor(call: string, number: number, code: string, explanation?: string, culprit?: string) {
    super(resultMessage(driverFailure(call, number, code, culprit), explanation))
    this.code = code
    this.number = number
    this.call = call
    this.#explanation = explanation
    this.#culprit = culprit
  }

  static {
    CudaError.prototype.name = 'CudaError'
    culpritOf = (error) => error.#culprit
    reportedWhileWaiting = (error, work) => {
      if (!(error instanceof CudaError)) return error
      const when = `Reported while waiting for ${work}`
      return explained(error, error.#explanation === undefined ? when : `${error.#explanation}. ${when}`)
    }
  }
}

/** Errors whose stack begins at the program's line, so that the stack of a copy of them must begin there, too. */
const shortened = new WeakSet<CudaError>()

/** Makes a CudaError whose stack begins at the program's line, if there is one on it: what is wrong has to do with no call. */
export function cudaErrorFromCaller(make: () => CudaError): CudaError {
  const error = fromCaller(make)
  shortened.add(error)
  return error
}

/** A copy of a CudaError with another explanation and, if it is given, what has faulted. */
export function explained(error: CudaError, explanation: string, culprit = culpritOf(error)): CudaError {
  const { call, number, code } = error
  const make = (): CudaError => new CudaError(call, number, code, explanation, culprit)
  return shortened.has(error) ? cudaErrorFromCaller(make) : make()
}

/** A refusal of a library: cuBLAS, NCCL or another. Match on `code` or `number`; the message is for people. */
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
    super(resultMessage(`${call} failed: ${code} (${number})`, explanation))
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

/** The error of a mistake in a call, with a code. Its message may quote any characters of the program. */
function coded<E extends Error>(type: new (message: string) => E, code: string, message: string): E & { code: string } {
  return Object.assign(
    fromCaller(() => new type(printableLines(message))),
    { code },
  )
}

/** What is wrong is said of the program's own call. The stack of other errors begins where they are made. */
const ABOUT_THE_CALL: readonly StateCode[] = [
  'ERR_CLOSED',
  'ERR_DEVICE_MISMATCH',
  'ERR_DEADLOCK',
  'ERR_UNSUPPORTED',
  'ERR_COMPILATION',
]

/** The arguments have the right form, but the call cannot be made in the present state. */
export function stateError(code: StateCode, message: string, cause?: unknown): Error & { code: string } {
  const text = printableLines(message)
  const make = (): Error => (cause === undefined ? new Error(text) : new Error(text, { cause }))
  return Object.assign(ABOUT_THE_CALL.includes(code) ? fromCaller(make) : make(), { code })
}

/** How an object is made of the number that another library has for it, by the class that is expected. */
const OF_NUMBERS = [
  ['Stream', 'new ExternalStream(handle)'],
  ['Event', 'Event.from(handle)'],
  ['DeviceBuffer', 'DeviceBuffer.from(pointer, byteLength)'],
] as const

/** The way out for a number in the place of an object that wraps one. */
function wrapped(expected: string, given: unknown): string | undefined {
  if (typeof given !== 'number' && typeof given !== 'bigint') return undefined
  const ways = OF_NUMBERS.flatMap(([name, way]) => (new RegExp(`\\b${name}\\b`).test(expected) ? [way] : []))
  return ways.length === 0 ? undefined : `wrap the number of another library by ${ways.join(' or ')}`
}

/** `way` is the way out, unless the expectation shows it. */
export function invalidType(
  name: string,
  expected: string,
  given: unknown,
  way = wrapped(expected, given),
): TypeError & { code: string } {
  const what = `${name} must be ${expected}, not ${describe(given)}`
  return coded(TypeError, 'ERR_INVALID_ARG_TYPE', way === undefined ? what : `${what}: ${way}`)
}

/** The error of a member that was called on an object of another class. */
export function invalidReceiver(expected: string, given: unknown): TypeError & { code: string } {
  const what = `This must be called on ${expected} itself, not on ${describe(given)}`
  return coded(
    TypeError,
    'ERR_INVALID_ARG_TYPE',
    `${what}: call the method on the object itself: it does not work detached`,
  )
}

/** Throws `invalidReceiver()`: for the right side of a `??`. */
export function refuseReceiver(expected: string, given: unknown): never {
  throw invalidReceiver(expected, given)
}

export function invalidValue(message: string): TypeError & { code: string } {
  return coded(TypeError, 'ERR_INVALID_ARG_VALUE', message)
}

/** `way` is the way out, unless the expectation shows it. */
export function outOfRange(
  name: string,
  expected: string,
  given: unknown,
  way?: string,
): RangeError & { code: string } {
  const what = `${name} must be ${expected}, not ${describe(given)}`
  return coded(RangeError, 'ERR_OUT_OF_RANGE', way === undefined ? what : `${what}: ${way}`)
}

/** The message of whatever was thrown. */
export const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown))

/** What a public object prints as; undefined for any other value. */
let textOfObject: (value: unknown) => string | undefined = () => undefined

/** Registers how the public objects print, whose classes this file cannot import. */
export function describeObjectsBy(text: typeof textOfObject): void {
  textOfObject = text
}

const ONE_LINE = {
  depth: 0,
  breakLength: Number.POSITIVE_INFINITY,
  compact: true,
  maxArrayLength: 6,
  customInspect: false,
}

/** A value as it reads in an error message: short, and in one line. */
export function describe(value: unknown): string {
  try {
    const known = textOfObject(value)
    if (known !== undefined) return known
    if (typeof value === 'function') return `function ${value.name || '(anonymous)'}`
    // inspect() shows errors with their stacks, and on Node 26 what classes keep behind symbols in lines of its own.
    const shown = value instanceof Error ? Error.prototype.toString.call(value) : inspect(value, ONE_LINE)
    const text = shown.replaceAll(/\s*\n\s*/g, ' ')
    return text.length > 80 ? `${beginning(text, 77)}...` : text
  } catch {
    // inspect() throws for some values, such as a DataView of a detached ArrayBuffer.
    return `a value of type ${typeof value}`
  }
}
