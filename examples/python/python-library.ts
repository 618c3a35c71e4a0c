/** A Python library behind the Library interface: each call is one of an object of adapters.ts. */
import type { Device, PythonStreamLike, Stream } from 'cuda-streams'
import { type Python, type PythonArgument, PythonError, type PythonObject } from 'cuda-streams/python'
import { ADAPTERS } from './adapters.js'
import type { Ability, ArrayInterface, Library } from './library.js'

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
  /** Does the stream's own class have `__cuda_stream__`? */
  readonly hasProtocol: boolean
  readonly mine: bigint
  readonly result: bigint
  readonly #count: number

  /** Imports the library. Throws PythonError where it is not there, or does not work. */
  constructor(python: Python, name: PythonLibraryName, count: number, device: Device) {
    const main = python.import('__main__')
    if (!python.evaluate(`'Offered' in globals()`).boolean()) python.run(ADAPTERS)
    this.#count = count
    this.owner = main.invoke(name, [count, device.ordinal])
    this.name = this.owner.get('name').text()
    this.abilities = new Set(python.evaluate('list(library.abilities)', { library: this.owner }).value() as Ability[])
    this.stream = this.owner.invoke('handle').bigint()
    const stream = this.owner.get('stream')
    this.hasProtocol = python.evaluate(`hasattr(stream, '__cuda_stream__')`, { stream }).boolean()
    this.streamObject = stream
    const pointers = this.owner.invoke('pointers')
    this.mine = pointers.item(0).bigint()
    this.result = pointers.item(1).bigint()
  }

  fill(value: number): void {
    this.#call('fill', value)
  }
  readMine(): void {
    this.#call('read_mine')
  }
  record(): bigint {
    return this.#call('record').bigint()
  }
  waitForEvent(handle: bigint): void {
    this.#call('wait_for_event', handle)
  }
  arrayInterface(): ArrayInterface {
    const told = this.#call('array_interface')
    const stream = told.item('stream')
    return {
      pointer: told.item('pointer').bigint(),
      byteLength: BYTES * this.#count,
      stream: stream.isNone ? undefined : stream.bigint(),
    }
  }
  wrapStream(stream: Stream, by: 'handle' | 'protocol'): void {
    if (by === 'handle') this.#call('wrap_stream', stream.handle)
    else this.#call('wrap_stream_object', stream)
  }
  waitForWrapped(): void {
    this.#call('wait_for_wrapped')
  }
  wrapMemory(pointer: bigint, stream: bigint | undefined): void {
    this.#call('wrap_memory', pointer, stream)
  }
  readOurs(): void {
    this.#call('read_theirs')
  }
  fillOursOnWrapped(value: number): void {
    this.#call('fill_theirs_on_wrapped', value)
  }
  captureFill(value: number, ours: boolean): void {
    this.#call('capture_fill', value, ours)
  }
  launchCaptured(onWrapped: boolean): void {
    this.#call('launch_captured', onWrapped)
  }
  transform(value: number, length: number): void {
    this.#call('transform', value, length)
  }
  copyPart(part: number, length: number): void {
    this.#call('copy_part', part, length)
  }

  #call(name: string, ...args: readonly PythonArgument[]): PythonObject {
    return this.owner.invoke(name, args)
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
  return error instanceof PythonError && /^(ModuleNotFoundError|ImportError)$/.test(error.type)
}
