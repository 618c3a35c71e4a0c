/** A session of ONNX Runtime: how it is made, what it says of its model, its runs and its end. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { Device } from '../../core/device.js'
import type { Stream } from '../../core/stream.js'
import { openStream } from '../../core/streams/stream-impl.js'
import { ELEMENT_TYPES, type ElementTypeName } from '../../foundation/base/element-types.js'
import { LibraryError, messageOf, stateError } from '../../foundation/base/errors.js'
import { NativeResource } from '../../foundation/base/finalization.js'
import { cudaHandleOf, isNullStream } from '../../foundation/driver/handle-types.js'
import { layer } from '../../foundation/native/layer.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { fileOfCuda, SharedLibrary } from '../../foundation/native/shared-library.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import { countNodes } from './node-count.js'
import { type OrtFunction, type OrtLibrary, openOrt } from './onnx-library.js'
import type { RunTensor, TensorInfo } from './tensors.js'

export interface SessionChoices {
  readonly tensorrt: boolean
  readonly graphs: boolean
}

/** ONNXType: a tensor. */
const TENSOR = 1
/** OrtDeviceAllocator, OrtMemTypeDefault */
const DEVICE_ALLOCATOR = 0
const DEFAULT_MEMORY = 0
/** cudaStreamLegacy. ONNX Runtime takes 0 for no stream. */
const LEGACY_STREAM = 1
/** The types of elements by ONNXTensorElementDataType. */
const TYPES = new Map<number, ElementTypeName>(
  (Object.keys(ELEMENT_TYPES) as ElementTypeName[]).map((name) => [ELEMENT_TYPES[name].onnx, name]),
)
/** The most sets of buffers that graphs of ONNX Runtime are made for: each keeps memory of the device. */
const MOST_GRAPHS = 64
const NO_GRAPH = -1

export class OrtSession extends NativeResource {
  readonly inputs: readonly TensorInfo[]
  readonly outputs: readonly TensorInfo[]
  readonly #address: number
  readonly #memoryInfo: number
  readonly #options: number
  /** The number of the graph for buffers and shapes. Undefined: ONNX Runtime makes none. */
  readonly #graphs: Map<string, number> | undefined
  /** A shape for ONNX Runtime, which copies it. */
  readonly #shape: ThreadMemory
  /** Runs of the simulator that are queued. */
  #queued = 0

  constructor(
    readonly library: OrtLibrary,
    readonly device: Device,
    address: number,
    /** A stream of its own, which is closed when ONNX Runtime needs it no longer. */
    private readonly ownStream: Stream | undefined,
    /** Nodes of the model, and its bytes. */
    readonly size: ModelSize,
    { graphs }: SessionChoices,
  ) {
    super()
    this.#address = address
    library.own('ReleaseSession', address)
    const isSimulated = device.driver === 'sim'
    this.#graphs = graphs && !isSimulated ? new Map() : undefined
    this.#options = library.made('CreateRunOptions')
    library.own('ReleaseRunOptions', this.#options)
    const [kind, ordinal] = isSimulated ? ['Cpu', 0] : ['Cuda', device.ordinal]
    this.#memoryInfo = library.made(
      'CreateMemoryInfo',
      library.text(`${kind}`),
      DEVICE_ALLOCATOR,
      Number(ordinal),
      DEFAULT_MEMORY,
    )
    library.own('ReleaseMemoryInfo', this.#memoryInfo)
    if (!isSimulated) this.#setOption('disable_synchronize_execution_providers', '1')
    this.inputs = this.#tensors('Input')
    this.outputs = this.#tensors('Output')
    const ranks = [...this.inputs, ...this.outputs].map(({ dims }) => dims.length)
    this.#shape = new ThreadMemory(8 * Math.max(1, ...ranks))
  }

  get isSimulated(): boolean {
    return this.device.driver === 'sim'
  }

  /** A run is queued on the simulator, which calls `run()` later. */
  queuedOnSimulator(): void {
    this.#queued += 1
  }

  /** Runs the model on the simulator's memory. */
  compute(tensors: readonly RunTensor[], contents: readonly Uint8Array[]): void {
    try {
      this.run(
        tensors,
        contents.map((bytes) => layer().addressOf(bytes)),
      )
    } finally {
      this.#queued -= 1
      if (this.isDisposed && this.#queued === 0) this.#release()
    }
  }

  /** Runs the model on memory at these addresses: on a GPU this queues it on the session's stream. Throws a LibraryError. */
  run(tensors: readonly RunTensor[], pointers: readonly number[]): void {
    const { library } = this
    if (this.#graphs !== undefined) this.#setOption('gpu_graph_id', String(this.#graphOf(tensors, pointers)))
    const binding = library.made('CreateIoBinding', this.#address)
    const values: number[] = []
    const shapes = this.#shape
    try {
      for (const [index, { info, shape, memory }] of tensors.entries()) {
        for (const [axis, size] of shape.entries()) shapes.setPointer(8 * axis, size)
        const tensor = [pointers[index] ?? 0, memory.byteLength, shapes.address, shape.length] as const
        const type = ELEMENT_TYPES[info.type].onnx
        const value = library.made('CreateTensorWithDataAsOrtValue', this.#memoryInfo, ...tensor, type)
        values.push(value)
        library.call(memory.access === 'in' ? 'BindInput' : 'BindOutput', binding, library.text(info.name), value)
      }
      library.call('RunWithBinding', this.#address, this.#options, binding)
    } finally {
      library.release('ReleaseIoBinding', binding)
      for (const value of values) library.release('ReleaseValue', value)
    }
  }

  override destroy(): void {
    if (this.#queued === 0) this.#release()
  }

  override toString(): string {
    return `Session(${this.device}${this.isClosed ? ', closed' : ''})`
  }

  /** Releases the session. On a GPU this waits for the device. */
  #release(): void {
    const { library, device, ownStream } = this
    const others = (): void => {
      library.release('ReleaseRunOptions', this.#options)
      library.release('ReleaseMemoryInfo', this.#memoryInfo)
      this.#shape.free()
      ownStream?.close()
    }
    // What cannot be released belongs to a device that is lost.
    library.releaseSession(device, this.#address).then(others, () => {})
  }

  /** ONNX Runtime launches a graph without a look at what is bound, so each set of addresses and shapes has its own. */
  #graphOf(tensors: readonly RunTensor[], pointers: readonly number[]): number {
    const graphs = this.#graphs ?? new Map<string, number>()
    const key = tensors.map(({ info, shape }, index) => `${info.name} ${pointers[index]} ${shape}`).join()
    const known = graphs.get(key)
    if (known !== undefined) return known
    if (graphs.size >= MOST_GRAPHS) return NO_GRAPH
    // 0 is reserved.
    graphs.set(key, graphs.size + 1)
    return graphs.size
  }

  #setOption(key: string, value: string): void {
    const { library } = this
    library.call('AddRunConfigEntry', this.#options, library.text(key), library.text(value))
  }

  #tensors(side: 'Input' | 'Output'): readonly TensorInfo[] {
    const count = this.library.made(`SessionGet${side}Count`, this.#address)
    return Array.from({ length: count }, (_, index) => this.#tensor(side, index))
  }

  #tensor(side: 'Input' | 'Output', index: number): TensorInfo {
    const { library } = this
    const allocator = library.made('GetAllocatorWithDefaultOptions')
    const text = library.made(`SessionGet${side}Name`, this.#address, index, allocator)
    const name = layer().text(text)
    library.call('AllocatorFree', allocator, text)
    const info = library.made(`SessionGet${side}TypeInfo`, this.#address, index)
    try {
      const what = `${side} '${name}' of the model`
      if (library.made('GetOnnxTypeFromTypeInfo', info) !== TENSOR)
        throw stateError(
          'ERR_UNSUPPORTED',
          `${what} is no tensor, but a sequence, a map or optional: only tensors are memory`,
        )
      const tensor = library.made('CastTypeInfoToTensorInfo', info)
      const number = library.made('GetTensorElementType', tensor)
      const type = TYPES.get(number)
      if (type !== undefined) return { name, type, dims: dimsOf(library, tensor) }
      const why = `has elements of ONNXTensorElementDataType ${number}, such as text, which no buffer holds`
      throw stateError('ERR_UNSUPPORTED', `${what} ${why}; known are ${[...TYPES.values()].join(', ')}`)
    } finally {
      library.release('ReleaseTypeInfo', info)
    }
  }
}

function dimsOf(library: OrtLibrary, tensor: number): readonly (number | string)[] {
  const count = library.made('GetDimensionsCount', tensor)
  const memory = new NativeMemory(8 * Math.max(1, count))
  try {
    library.call('GetDimensions', tensor, memory.address, count)
    const sizes = Array.from(memory.uint64.subarray(0, count), (size) => Number(BigInt.asIntN(64, size)))
    library.call('GetSymbolicDimensions', tensor, memory.address, count)
    return sizes.map((size, axis) => (size >= 0 ? size : layer().text(memory.pointerAt(8 * axis))))
  } finally {
    memory.free()
  }
}

export interface ModelSize {
  readonly nodes: number
  readonly byteLength: number
}

/** Makes a session, with a stream that ONNX Runtime computes on, its own or one of the program. Rejects with ERR_UNSUPPORTED or a LibraryError. */
export async function makeSession(
  model: string | Uint8Array,
  stream: Stream,
  isOwn: boolean,
  choices: SessionChoices,
): Promise<OrtSession> {
  const { device } = stream
  const library = openOrt()
  // ONNX Runtime reads it on another thread, while the program may change its own.
  const copy = typeof model === 'string' ? undefined : NativeMemory.ofText(model)
  const file = NativeMemory.ofText(typeof model === 'string' ? pathForOrt(model) : '')
  const options = library.made('CreateSessionOptions')
  try {
    const size = sizeOf(model)
    // One thread, the caller's: the same results on each machine.
    library.call('SetIntraOpNumThreads', options, 1)
    if (device.driver === 'cuda') await appendProviders(library, stream, options, choices)
    const made = new NativeMemory(8)
    try {
      const given = copy === undefined ? [file.address] : [copy.address, size.byteLength]
      const call: OrtFunction = copy === undefined ? 'CreateSession' : 'CreateSessionFromArray'
      await library.callSlowly(device, call, library.env, ...given, options, made.address)
      return openMade(library, device, made.pointerAt(0), isOwn ? stream : undefined, size, choices)
    } finally {
      made.free()
    }
  } finally {
    library.release('ReleaseSessionOptions', options)
    copy?.free()
    file.free()
  }
}

/** Windows has paths in UTF-16, which end in two zeros, of which the memory adds one. */
const pathForOrt = (path: string): string | Uint8Array =>
  process.platform === 'win32' ? Buffer.from(`${path}\0`, 'utf16le') : path

/** What ONNX Runtime made is released where the model has tensors that cannot be used. */
function openMade(
  library: OrtLibrary,
  device: Device,
  address: number,
  ownStream: Stream | undefined,
  size: ModelSize,
  choices: SessionChoices,
): OrtSession {
  try {
    return new OrtSession(library, device, address, ownStream, size, choices)
  } catch (error) {
    library.releaseSession(device, address).catch(() => {})
    throw error
  }
}

/** A file that cannot be read has no size here: ONNX Runtime says what is wrong with it. */
function sizeOf(model: string | Uint8Array): ModelSize {
  if (typeof model !== 'string') {
    const read = (position: number, length: number): Uint8Array => model.subarray(position, position + length)
    return { nodes: countNodes(read, model.byteLength), byteLength: model.byteLength }
  }
  let file: number
  try {
    file = openSync(model, 'r')
  } catch {
    return { nodes: 0, byteLength: 0 }
  }
  try {
    const byteLength = fstatSync(file).size
    const read = (position: number, length: number): Uint8Array => {
      const bytes = new Uint8Array(length)
      return bytes.subarray(0, readSync(file, bytes, 0, length, position))
    }
    return { nodes: countNodes(read, byteLength), byteLength }
  } finally {
    closeSync(file)
  }
}

/** The providers in the order in which ONNX Runtime asks them for each node. The CPU comes last by itself. */
async function appendProviders(
  library: OrtLibrary,
  stream: Stream,
  options: number,
  { tensorrt, graphs }: SessionChoices,
): Promise<void> {
  checkProvider(
    library,
    'CUDA',
    'install the wheel onnxruntime-gpu, or let CUDA_STREAMS_ONNXRUNTIME name a build with CUDA',
  )
  if (tensorrt) checkProvider(library, 'Tensorrt', 'do without options.tensorrt, or use a build with TensorRT')
  const { handle, driver } = openStream(stream)
  driver.streams.escaped(handle)
  const raw = isNullStream(handle) ? LEGACY_STREAM : cudaHandleOf(handle)
  const graph = graphs ? '1' : '0'
  const ordinal = String(stream.device.ordinal)
  if (tensorrt)
    await append(library, 'TensorRT', stream, options, raw, { device_id: ordinal, trt_cuda_graph_enable: graph })
  await append(library, 'CUDA', stream, options, raw, { device_id: ordinal, enable_cuda_graph: graph })
}

function checkProvider(library: OrtLibrary, name: 'CUDA' | 'Tensorrt', way: string): void {
  const { version, providers } = library
  if (providers.includes(`${name}ExecutionProvider`)) return
  const what = `The ONNX Runtime that was found (${version}) has no provider for ${name === 'CUDA' ? name : 'TensorRT'}`
  throw stateError('ERR_UNSUPPORTED', `${what}, only ${providers.join(', ')}: ${way}`)
}

/** Adds a provider, whose library is loaded by another thread. */
async function append(
  library: OrtLibrary,
  name: 'CUDA' | 'TensorRT',
  { device }: Stream,
  options: number,
  stream: number,
  values: Readonly<Record<string, string>>,
): Promise<void> {
  const own = library.made(`Create${name}ProviderOptions`)
  const entries = Object.entries(values)
  const lists = new NativeMemory(16 * entries.length)
  const onThread = (call: OrtFunction, ...args: readonly number[]) => library.callSlowly(device, call, ...args)
  try {
    for (const [index, [key, value]] of entries.entries()) {
      lists.setPointer(8 * index, library.text(key))
      lists.setPointer(8 * (entries.length + index), library.text(value))
    }
    const { address } = lists
    const given = [own, address, address + 8 * entries.length, entries.length]
    await withLibraries(() => onThread(`Update${name}ProviderOptions`, ...given))
    library.call(`Update${name}ProviderOptionsWithValue`, own, library.text('user_compute_stream'), stream)
    await onThread(`SessionOptionsAppendExecutionProvider_${name}_V2`, options, own)
  } finally {
    lists.free()
    library.release(`Release${name}ProviderOptions`, own)
  }
}

/** A bound that is larger than the number of libraries that any provider needs. */
const MOST_LIBRARIES = 32

/**
 * Loads a provider, and before that each library of CUDA that the loader says it does not find, from the places in which other libraries of CUDA
 * are found: those of pip are on no path of the loader.
 */
async function withLibraries(load: () => Promise<void>): Promise<void> {
  const opened = new Set<string>()
  for (;;) {
    try {
      await load()
      return
    } catch (error) {
      const name = missingIn(error)
      if (name === undefined) throw error
      if (opened.has(name) || opened.size >= MOST_LIBRARIES || !openOfCuda(name, opened)) throw withWayOut(error, name)
    }
  }
}

/** The library that the loader has not found, by its message. */
const missingIn = (error: unknown): string | undefined =>
  /(lib[\w.+-]+\.so[.\d]*): cannot open shared object file/.exec(messageOf(error))?.[1]

/** Loads a library of CUDA, and before that those that it needs. Returns whether it was found. */
function openOfCuda(name: string, opened: Set<string>): boolean {
  const file = fileOfCuda(name)
  if (file === undefined) return false
  opened.add(name)
  try {
    SharedLibrary.open(file)
    return true
  } catch (error) {
    const other = missingIn(error)
    return other !== undefined && !opened.has(other) && openOfCuda(other, opened) && openOfCuda(name, opened)
  }
}

function withWayOut(error: unknown, name: string): unknown {
  if (!(error instanceof LibraryError)) return error
  const way = `${name} was not found: install cuDNN and the CUDA toolkit that this build is made for, by pip or otherwise, or let LD_LIBRARY_PATH name its folder`
  return new LibraryError(error.call, error.number, error.code, `${way}. ONNX Runtime says: ${error.message}`)
}
