/** A Python library behind the Library interface: each call is one line of Python on an object of adapters.ts. */
import type { Device, PythonStreamLike, Stream } from 'cuda-streams'
import { ADAPTERS } from './adapters.js'
import type { Ability, ArrayInterface, Library } from './library.js'
import type { Python } from './python.js'
import { PythonObject, PythonStream } from './python-object.js'

/** The classes of adapters.ts. */
export const PYTHON_LIBRARIES = ['Torch', 'Cupy', 'CudaCore', 'Numba', 'Warp'] as const
export type PythonLibraryName = (typeof PYTHON_LIBRARIES)[number]

const BYTES = 4

export class PythonLibrary implements Library {
  readonly name: string
  readonly abilities: ReadonlySet<Ability>
  readonly owner: PythonObject
  readonly stream: bigint
  readonly streamObject: PythonStreamLike
  /** Does the stream's own class have `__cuda_stream__`? Otherwise it was put into an object that has. */
  readonly hasProtocol: boolean
  readonly mine: bigint
  readonly result: bigint
  readonly #python: Python
  readonly #count: number
  readonly #self: string

  /** Imports the library. Throws PythonError with Python's traceback where it is not there, or does not work. */
  constructor(python: Python, name: PythonLibraryName, count: number, device: Device) {
    if (python.number(`'Offered' in globals()`) === 0) python.run(ADAPTERS)
    this.#python = python
    this.#count = count
    this.owner = new PythonObject(python, `${name}(${count}, ${device.ordinal})`)
    this.#self = this.owner.expression
    this.name = python.text(`${this.#self}.name`)
    this.abilities = new Set(python.json(`${this.#self}.abilities`) as Ability[])
    this.stream = python.handle(`${this.#self}.handle()`)
    this.hasProtocol = python.number(`hasattr(${this.#self}.stream, '__cuda_stream__')`) === 1
    const stream = `${this.#self}.stream`
    this.streamObject = new PythonStream(
      python,
      this.hasProtocol ? stream : `StreamObject(${this.stream}, owner=${stream})`,
    )
    this.mine = python.handle(`${this.#self}.pointers()[0]`)
    this.result = python.handle(`${this.#self}.pointers()[1]`)
  }

  fill(value: number): void {
    this.#run(`fill(${value})`)
  }
  readMine(): void {
    this.#run('read_mine()')
  }
  record(): bigint {
    return this.#python.handle(`${this.#self}.record()`)
  }
  waitForEvent(handle: bigint): void {
    this.#run(`wait_for_event(${handle})`)
  }
  arrayInterface(): ArrayInterface {
    const told = this.#python.json(`${this.#self}.array_interface()`) as { pointer: number; stream: number | null }
    const stream = told.stream === null ? undefined : BigInt(told.stream)
    return { pointer: BigInt(told.pointer), byteLength: BYTES * this.#count, stream }
  }
  wrapStream(stream: Stream, by: 'handle' | 'protocol'): void {
    if (by === 'handle') this.#run(`wrap_stream(${stream.handle})`)
    else this.#run(`wrap_stream_object(StreamObject(${stream.handle}))`)
  }
  waitForWrapped(): void {
    this.#run('wait_for_wrapped()')
  }
  wrapMemory(pointer: bigint, stream: bigint | undefined): void {
    this.#run(`wrap_memory(${pointer}, ${stream ?? 'None'})`)
  }
  readOurs(): void {
    this.#run('read_theirs()')
  }
  fillOursOnWrapped(value: number): void {
    this.#run(`fill_theirs_on_wrapped(${value})`)
  }
  captureFill(value: number, ours: boolean): void {
    this.#run(`capture_fill(${value}, ${ours ? 'True' : 'False'})`)
  }
  launchCaptured(onWrapped: boolean): void {
    this.#run(`launch_captured(${onWrapped ? 'True' : 'False'})`)
  }
  transform(value: number, length: number): void {
    this.#run(`transform(${value}, ${length})`)
  }
  copyPart(part: number, length: number): void {
    this.#run(`copy_part(${part}, ${length})`)
  }

  #run(call: string): void {
    this.#python.run(`${this.#self}.${call}`)
  }
}

/** What came of opening every library: those that are here, and why the others are not. */
export interface Opened {
  readonly libraries: readonly PythonLibrary[]
  readonly missing: readonly { readonly name: PythonLibraryName; readonly error: Error }[]
}

/** All that can be imported, loaded together in one process. */
export function openPythonLibraries(
  python: Python,
  device: Device,
  count: number,
  names: readonly PythonLibraryName[] = PYTHON_LIBRARIES,
): Opened {
  const libraries: PythonLibrary[] = []
  const missing: { name: PythonLibraryName; error: Error }[] = []
  for (const name of names) {
    try {
      libraries.push(new PythonLibrary(python, name, count, device))
    } catch (error) {
      if (!(error instanceof Error)) throw error
      missing.push({ name, error })
    }
  }
  return { libraries, missing }
}

/** Is it not installed, or not usable with this GPU? Anything else that keeps a library from opening is a mistake. */
export function isNotHere(error: Error): boolean {
  return /\n(ModuleNotFoundError|ImportError): [^\n]*$/.test(error.message)
}
