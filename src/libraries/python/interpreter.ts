/** CPython in this process: loading it, starting it, and asking it. */

import { messageOf } from '../../foundation/base/errors.js'
import { atNextTurn } from '../../foundation/base/event-loop.js'
import { NativeResource } from '../../foundation/base/finalization.js'
import { fromCaller } from '../../foundation/base/stack.js'
import { bindAll, type CFunction, declaration, own } from '../../foundation/native/c-functions.js'
import { layer } from '../../foundation/native/layer.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { SharedLibrary } from '../../foundation/native/shared-library.js'
import { BRIDGE } from './bridge.js'
import { findPython, type Installation, installationFor, SET, unusable } from './installation.js'

/**
 * What Python raised. `message` has the exception's type and text, and for a missing module also which Python lacks it; `stack` has the lines
 * of JavaScript, then the traceback of Python.
 */
export class PythonError extends Error {
  /** The name of the exception's type, such as 'ValueError' or 'torch.OutOfMemoryError'. */
  readonly type: string
  /** Python's traceback, as Python prints it. */
  declare readonly traceback: string

  /**
   * Made by the library.
   * @param type The name of the exception's type.
   * @param text The exception as text.
   * @param traceback Python's traceback.
   */
  constructor(type: string, text: string, traceback: string) {
    super(text === '' ? type : `${type}: ${text}`)
    this.type = type
    // It is in the stack, too, and is not to be printed twice.
    Object.defineProperty(this, 'traceback', { value: traceback })
  }

  static {
    PythonError.prototype.name = 'PythonError'
  }
}

/** A value as a request and a reply have it: bridge.ts says what objects mean. */
export type Wire = null | boolean | number | string | readonly Wire[] | { readonly [key: string]: Wire }

/** The functions of libpython that are called, all of them in its stable ABI. */
const FUNCTIONS = {
  Py_IsInitialized: 'void',
  PyRun_SimpleString: 'const char *code',
  PyGILState_Check: 'void',
  PyGILState_Ensure: 'void',
} as const
const HOME = 'PYTHONHOME'
const FIRST_ROOM = 64 * 1024
/** A character is at most three bytes of UTF-8 for each unit of UTF-16. */
const MOST_BYTES = 3
const ENCODER = new TextEncoder()
const DECODER = new TextDecoder()

/** The interpreter as one thread of JavaScript has it. Its lock is held only while a request is answered. */
export class Interpreter {
  /** Objects of JavaScript that Python has, by their numbers. */
  readonly #kept = new Map<number, object>()
  readonly #answer: CFunction
  /** The numbers of objects that JavaScript no longer has, which the next request releases. */
  readonly #released: number[] = []
  /** Arrays whose addresses are in the request that is being made. */
  readonly #passed: Uint8Array[] = []
  #frame = new NativeMemory(FIRST_ROOM)
  #numbers = 0

  /** Use `start()`. */
  constructor(
    readonly version: string,
    readonly library: string,
    readonly executable: string,
    answer: number,
  ) {
    const parameters = 'Word address, Word length, Word room'
    this.#answer = bindAll([declaration('answer', answer, parameters, 'address4')]).answer
  }

  /**
   * Loads Python and starts it, unless another thread has.
   * @throws ERR_UNSUPPORTED, with what was tried
   */
  static start(callBack: (number: number, stream: number, major: number) => number): Interpreter {
    if (process.platform === 'win32')
      throw unusable('it is started on Linux alone. On Windows, run the program in WSL 2')
    try {
      layer()
    } catch (cause) {
      throw unusable(messageOf(cause), cause)
    }
    const found = findPython()
    let library: SharedLibrary
    try {
      library = SharedLibrary.openForAll(found.library)
    } catch (cause) {
      throw unusable(`${found.library} cannot be loaded: ${messageOf(cause)}`, cause)
    }
    const version = library.addresses({ Py_GetVersion: 'void' }).Py_GetVersion()
    const [release = ''] = layer().text(version).split(' ')
    const short = release.split('.').slice(0, 2).join('.')
    const installation = 'installation' in found ? found.installation : installationFor(found.library, short)
    layer().callBackWith(callBack)
    const answer = startIn(library, found.library, installation)
    return new Interpreter(release, found.library, installation.executable, answer)
  }

  /** @throws PythonError */
  ask(operation: string, ...given: readonly Wire[]): Wire {
    const request = JSON.stringify([this.#released.splice(0), operation, ...given])
    this.#reserve(MOST_BYTES * request.length)
    const { written } = ENCODER.encodeInto(request, this.#frame.bytes)
    let length = this.#answer(this.#frame.address, written, this.#frame.bytes.length)
    if (length > this.#frame.bytes.length) {
      this.#reserve(length)
      length = this.#answer(this.#frame.address, 0, this.#frame.bytes.length)
    }
    this.#passed.length = 0
    if (length === 0) throw new PythonError('SystemError', 'Python could not answer; standard error has why', '')
    const reply: [boolean, Wire, number[]] = JSON.parse(DECODER.decode(this.#frame.bytes.subarray(0, length)))
    const [isRight, result, forgotten] = reply
    for (const number of forgotten) this.#kept.delete(number)
    if (isRight) return result
    const [type = '', text = '', traceback = ''] = result as readonly string[]
    const isMissing = type === 'ModuleNotFoundError'
    const where = isMissing ? `. This is ${this.executable}: install it there, or ${SET}` : ''
    const error = fromCaller(() => new PythonError(type, `${text}${where}`, traceback))
    error.stack = `${error.stack}\n\n${traceback}`
    throw error
  }

  /** Lets Python collect an object that JavaScript had. */
  release(number: number): void {
    this.#released.push(number)
    this.ask('release')
  }

  /** The same for an object that the garbage collector found: they are many at once, so that is one request for all. */
  releaseSoon(number: number): void {
    this.#released.push(number)
    if (this.#released.length > 1) return
    atNextTurn(() => {
      if (this.#released.length > 0) this.ask('release')
    }).unref()
  }

  /** Keeps an object of JavaScript until Python has no more use for it. Returns its number. */
  keep(object: object): number {
    this.#numbers += 1
    this.#kept.set(this.#numbers, object)
    return this.#numbers
  }

  /** The address of bytes for the next request, which copies them. */
  pass(bytes: Uint8Array): number {
    this.#passed.push(bytes)
    return layer().addressOf(bytes)
  }

  kept(number: number): object | undefined {
    return this.#kept.get(number)
  }

  toString(): string {
    return `Python(${this.version})`
  }

  #reserve(length: number): void {
    if (length <= this.#frame.bytes.length) return
    this.#frame.free()
    this.#frame = new NativeMemory(16 * Math.ceil(length / 8))
  }
}

/** Starts Python, if it does not run, and the half of the interface that is written in Python. Returns the address of what answers. */
function startIn(library: SharedLibrary, path: string, installation: Installation): number {
  const python = library.functions(FUNCTIONS)
  const { PyEval_SaveThread } = library.addresses({ PyEval_SaveThread: 'void' })
  const initialise = library.addressOf('Py_InitializeEx')
  const code = NativeMemory.ofText(BRIDGE)
  const told = NativeMemory.ofText(JSON.stringify(installation))
  const frame = new NativeMemory(8)
  const textAt = ({ address }: NativeMemory): string => `__import__('ctypes').string_at(${address}).decode()`
  const callBack = layer().functions['callBack'] ?? 0
  // It defines no name in __main__, which is the program's.
  const namespace = `{'__name__': 'cuda_streams', 'frame': ${frame.address}, 'call_back': ${callBack}, 'installation': __import__('json').loads(${textAt(told)})}`
  const run = NativeMemory.ofText(`exec(compile(${textAt(code)}, '<cuda-streams>', 'exec'), ${namespace})`)
  withHome(installation, () => own().callAlone(initialise, 0))
  // The thread that has started Python has its lock now. Others get a state of their own, which they keep.
  if (python.PyGILState_Check() === 0) python.PyGILState_Ensure()
  const failed = python.PyRun_SimpleString(run.address)
  // Threads of Python run while JavaScript does. Answers take the lock themselves.
  PyEval_SaveThread()
  const answer = frame.pointerAt(0)
  for (const memory of [code, told, frame, run]) memory.free()
  if (failed === 0) return answer
  throw unusable(`${path} runs, and what is needed of it does not, such as its module ctypes: standard error has why`)
}

/** Python finds its standard library by a variable, which C reads: the `process.env` of a worker is a copy. */
function withHome({ basePrefix, baseExecPrefix }: Installation, action: () => void): void {
  const environment = SharedLibrary.ofProcess
  const { setenv, unsetenv } = environment.functions({
    setenv: 'const char *name, const char *value, int overwrite',
    unsetenv: 'const char *name',
  })
  const name = NativeMemory.ofText(HOME)
  const value = NativeMemory.ofText(`${basePrefix}:${baseExecPrefix}`)
  const found = environment.addresses({ getenv: 'const char *name' }).getenv(name.address)
  const before = found === 0 ? undefined : NativeMemory.ofText(layer().text(found))
  try {
    setenv(name.address, value.address, 1)
    action()
  } finally {
    if (before === undefined) unsetenv(name.address)
    else setenv(name.address, before.address, 1)
    for (const memory of [name, value, before]) memory?.free()
  }
}

/** A Python object that JavaScript has. */
export class HeldObject extends NativeResource {
  constructor(
    readonly interpreter: Interpreter,
    /** The name of the object's type. */
    readonly type: string,
    /** The object in a request: the number under which Python holds it, or the value itself. */
    readonly wire: Wire,
  ) {
    super()
  }

  /** The number under which the object is held in Python; undefined for numbers and texts, which are held here. */
  get number(): number | undefined {
    const { wire } = this
    const number = typeof wire === 'object' && wire !== null && 'o' in wire ? wire['o'] : undefined
    return typeof number === 'number' ? number : undefined
  }

  override destroy(): void {
    if (this.number !== undefined) this.interpreter.release(this.number)
  }

  protected override destroyUnowned(): void {
    if (this.number !== undefined) this.interpreter.releaseSoon(this.number)
  }

  override toString(): string {
    return `PythonObject(${this.number === undefined ? `${this.type} ${JSON.stringify(this.wire)}` : this.type})`
  }
}
