/** Python in this process. */

import { bufferImplOf } from '../../core/memory/buffer.js'
import type { DeviceBuffer } from '../../core/memory/device-buffer.js'
import type { PinnedBuffer } from '../../core/memory/pinned-buffer.js'
import { isOptionsObject } from '../../foundation/base/arguments.js'
import { invalidType, messageOf, refuseReceiver } from '../../foundation/base/errors.js'
import { checkMade, implementation, LibraryObject } from '../../foundation/base/library-object.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { toDLPack } from '../dlpack/exchange.js'
import { DeviceType } from '../dlpack/structs.js'
import type { ElementOptions } from '../dlpack/tensor.js'
import { Interpreter } from './interpreter.js'
import { encodeNames, objectOf, type PythonKeywords, type PythonObject } from './python-object.js'

/** Memory that Python has, with what it asks for when a library takes it. */
class SharedBuffer {
  constructor(
    readonly buffer: DeviceBuffer | PinnedBuffer,
    readonly elements: ElementOptions,
  ) {}
}

/** The reason why the last buffer could not be taken: Python reads the text right after. */
let refusal: NativeMemory | undefined
let started: Python | undefined

/** Python calls it to take a buffer, within a call that JavaScript has made. Returns a struct's address, or that of a text, negative. */
function takeBuffer(number: number, stream: number, major: number): number {
  try {
    const shared = interpreterOf(started).kept(number)
    if (!(shared instanceof SharedBuffer)) throw new Error('The buffer is shared no longer')
    return Number(toDLPack(shared.buffer, { ...shared.elements, stream, maxVersion: [major, 0] }).pointer)
  } catch (error) {
    refusal?.free()
    refusal = NativeMemory.ofText(messageOf(error))
    return -refusal.address
  }
}

/**
 * The interpreter of this process: CPython, in which PyTorch, CuPy, cuda.core, Numba, Warp and JAX share the GPU with this library. Code runs on
 * the thread that calls, and no call of JavaScript returns before it has. Between the calls Python's lock is free, so that threads of
 * Python run on. Workers use the same interpreter; objects belong to the thread that has them.
 * @example
 * ```ts
 * import { Python } from 'cuda-streams/python'
 *
 * const python = Python.start()
 * const numbers = python.evaluate('[n * n for n in range(limit)]', { limit: 4 }).value()
 * console.log(numbers) // [ 0, 1, 4, 9 ]
 * ```
 */
export class Python extends LibraryObject {
  /** The version of Python, such as '3.12.3'. */
  readonly version: string
  /** The shared library that was loaded. */
  readonly library: string
  /** The executable whose modules are used, as `sys.executable` has it. */
  readonly executable: string
  /** @internal */
  declare readonly [implementation]: Interpreter

  /** Use `Python.start()`. */
  private constructor(interpreter: Interpreter) {
    super()
    checkMade(interpreter, Interpreter, 'Python', 'Python.start()')
    this[implementation] = interpreter
    this.version = interpreter.version
    this.library = interpreter.library
    this.executable = interpreter.executable
  }

  /**
   * Starts Python at the first call, and returns the same object at each. It is the Python that a shell would start, with its modules: that of
   * CUDA_STREAMS_PYTHON (an executable or a libpython), or else of VIRTUAL_ENV, of CONDA_PREFIX, or the first `python3` on the PATH. It needs a
   * shared libpython. It installs no handlers of signals and is never finalised, so it does not keep the process from ending. On a GPU call
   * `Device.get()` before `import torch`: the driver reads the number of its queues once.
   * @throws {Error} ERR_UNSUPPORTED, with what was tried and the way out, if there is no such Python
   */
  static start(): Python {
    started ??= new Python(Interpreter.start(takeBuffer))
    return started
  }

  /**
   * Imports a module, as `import name` in Python.
   * @param name Its name, such as 'torch' or 'torch.cuda'.
   * @throws {PythonError} ModuleNotFoundError if it is not installed; what it raises
   * @throws {Error} ERR_INVALID_ARG_TYPE
   */
  import(name: string): PythonObject {
    return objectOf(interpreterOf(this), interpreterOf(this).ask('import', checkCode(name, 'name')))
  }

  /**
   * Runs statements in `__main__`, where their names stay defined.
   * @param code The statements. What all lines are indented by is removed.
   * @param names Names that it may use besides, only while it runs.
   * @throws {PythonError} what the code raises, SystemExit and KeyboardInterrupt, too
   * @throws {Error} ERR_INVALID_ARG_TYPE
   * @example
   * ```ts
   * python.run('import torch; busy = torch.cuda.Stream()')
   * python.run('busy.wait_stream(torch.cuda.ExternalStream(handle))', { handle: stream.handle })
   * ```
   */
  run(code: string, names: PythonKeywords = {}): void {
    const interpreter = interpreterOf(this)
    interpreter.ask('run', checkCode(code, 'code'), encodeNames(interpreter, checkNames(names)))
  }

  /**
   * The value of an expression in `__main__`.
   * @param expression The expression.
   * @param names Names that it may use besides, only while it is evaluated.
   * @throws {PythonError} what it raises
   * @throws {Error} ERR_INVALID_ARG_TYPE
   */
  evaluate(expression: string, names: PythonKeywords = {}): PythonObject {
    const interpreter = interpreterOf(this)
    const code = checkCode(expression, 'expression')
    return objectOf(interpreter, interpreter.ask('evaluate', code, encodeNames(interpreter, checkNames(names))))
  }

  /**
   * An object with `__dlpack__`, by which libraries of Python use the memory of a buffer: `torch.from_dlpack()`, `numpy.from_dlpack()` for a
   * PinnedBuffer, and so on, as often as they like. Each waits on its own stream for all work with the buffer until then. The buffer
   * is kept until Python has no more use for it; one that was closed is a BufferError there.
   * @param buffer A DeviceBuffer, or a PinnedBuffer, which is memory of the host.
   * @param elements `dtype` and `shape` of its elements, `strides` in elements; they are checked when a library takes it
   * @throws {Error} ERR_INVALID_ARG_TYPE; ERR_CLOSED
   * @example
   * ```ts
   * const shared = python.share(buffer, { dtype: 'f32', shape: [32, 32] })
   * const tensor = python.import('torch').invoke('from_dlpack', [shared])
   * ```
   */
  share(buffer: DeviceBuffer | PinnedBuffer, elements: ElementOptions): PythonObject {
    const interpreter = interpreterOf(this)
    const impl = bufferImplOf(buffer)
    if (impl === undefined) throw invalidType('buffer', 'a DeviceBuffer or a PinnedBuffer', buffer)
    if (!isOptionsObject(elements)) throw invalidType('elements', '{ dtype, shape }', elements)
    impl.checkOpen()
    const device = impl.isPinned ? [DeviceType.CPU, 0] : [DeviceType.CUDA, impl.device.ordinal]
    const { dtype, shape, strides } = elements
    const number = interpreter.keep(new SharedBuffer(buffer, { dtype, shape, strides }))
    return objectOf(interpreter, interpreter.ask('share', number, device))
  }

  get [Symbol.toStringTag](): string {
    return 'Python'
  }
}

const interpreterOf = (value: unknown): Interpreter =>
  (value instanceof Python ? value[implementation] : undefined) ?? refuseReceiver('a Python', value)

function checkCode(value: unknown, name: string): string {
  if (typeof value === 'string') return value
  throw invalidType(name, 'a string', value)
}

function checkNames(value: PythonKeywords): PythonKeywords {
  if (isOptionsObject(value)) return value
  throw invalidType('names', 'an object of values by name', value)
}
