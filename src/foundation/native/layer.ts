/**
 * The native layer (native/README.md). It is loaded when the CUDA driver is first used: importing the package loads no library, and the
 * simulator needs none.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { messageOf, stateError } from '../base/errors.js'
import { inProc } from '../base/system-threads.js'

export interface Timer {
  /**
   * Calls the wake function once, that many nanoseconds later, or when an event is done that its thread queries meanwhile, unless the
   * timer is started again or stopped before. `queries` is the address of what native/timer.c calls Queries.
   */
  start(nanoseconds: number, queries?: number): void
  stop(): void
}

/** The functions that native/*.c export. */
export interface Layer {
  /** Makes a function that makes the C call whose frame is at this offset. The buffer must live as long as the function. */
  bind(buffer: ArrayBuffer, offset: number, shape: number): () => void
  /**
   * Does the same as `bind`, for a call of eight words that makes or destroys a handle of this kind: `role` is which of the two,
   * and the positions are those of the handle and of its length or stream (native/owned.c).
   */
  bindOwning(
    buffer: ArrayBuffer,
    offset: number,
    owner: number,
    kind: number,
    role: number,
    argument: number,
    more: number,
  ): () => void
  /** The owner of what this thread makes, until it ends. */
  ownHandles(isMain: number): number
  /** Loads a shared library, which is never unloaded. Throws an Error with the loader's message. */
  open(path: string): number
  /** The address of a symbol of a library, or, for library 0, of the program and what it started with; 0 when there is none. */
  symbol(library: number, name: string): number
  /** The path of the library that has what is at this address; no text where none has. */
  fileAt(address: number): string
  view(address: number, byteLength: number): ArrayBuffer
  /** The address of bytes, valid until their ArrayBuffer is detached. */
  addressOf(bytes: Uint8Array): number
  /** Reads the text at an address, up to a zero. */
  text(address: number): string
  detach(buffer: ArrayBuffer): void
  /** Fills memory, of four bytes or more, with a byte when the JavaScript of this thread ends, however it ends: its first four bytes last. */
  fillAtEnd(address: number, byteLength: number, byte: number): void
  /** Tells V8 that objects of JavaScript hold so many bytes more outside of its heap. Returns what they hold then. */
  adjustExternalMemory(change: number): number
  /** A number for an object, which does not keep it reachable. */
  weakReference(object: object): number
  /** The object, or undefined once it was collected. A look keeps it reachable no longer, unlike that of a WeakRef. */
  referent(reference: number): object | undefined
  deleteReference(reference: number): void
  /** Makes a timer that counts in nanoseconds, and keeps the process alive while it is started. */
  timer(wake: () => void): Timer
  /**
   * The function that the C function `callBack` calls on this thread, with three integers, while C runs that JavaScript has called. It
   * returns an integer, and catches its own errors.
   */
  callBackWith(called: (a: number, b: number, c: number) => number): void
  /** The offsets of the fields of the process registry, in words of four bytes, and how many there are of each. */
  registryLayout(): Readonly<Record<string, number>>
  /** The addresses of the layer's own C functions. */
  readonly functions: Readonly<Record<string, number>>
}

const SYSTEMS = ['linux-x64', 'linux-arm64', 'win32-x64', 'win32-arm64']

/** Why a file that exists cannot be loaded, and the way out, by the code and message of the error. */
const FAILURES: readonly (readonly [RegExp, string])[] = [
  [
    /DLOPEN_DISABLED/,
    'Node may not load native addons. Start it with --allow-addons beside --permission, and without --no-addons',
  ],
  [/ACCESS_DENIED/, 'Node may not read it. Start it with --allow-fs-read for node_modules'],
  [/NotCapable/, 'Deno may not load it. Start it with --allow-ffi, --allow-read, --allow-env and --allow-sys'],
  [
    /NO_EXTERNAL_BUFFERS/,
    'this run time keeps ArrayBuffers in a cage of V8, as Electron does, and pinned memory and the calls of the driver need memory of C. Use the GPU in a process of Node itself: fork() of node:child_process with the option execPath, the path of a Node beside Electron',
  ],
  [/./, 'it does not load. Install cuda-streams again'],
]

let loaded: { readonly layer: Layer; readonly file: string } | undefined

/** @throws ERR_NO_DRIVER, with the way out */
export function layer(): Layer {
  loaded ??= load()
  return loaded.layer
}

/** @throws ERR_NO_DRIVER, with the way out */
export function layerFile(): string {
  loaded ??= load()
  return loaded.file
}

/**
 * The library that the CUDA driver loads into a process that is traced.
 * @throws ERR_NO_DRIVER, with the way out; ERR_UNSUPPORTED on Windows
 */
export function injectionFile(): string {
  if (process.platform === 'win32')
    throw stateError(
      'ERR_UNSUPPORTED',
      'The calls of all libraries of a process are traced on Linux alone: on Windows, trace those of this library (CUDA_STREAMS_SANITIZER without `process`), or run the program in WSL 2',
    )
  return layerFile().replace(/\.node$/, '.injection.so')
}

/** Does this process run on musl, the C library of Alpine? */
export function isMusl(): boolean {
  try {
    return readFileSync(inProc('self', 'maps'), 'latin1').includes('/ld-musl-')
  } catch {
    return false
  }
}

function load(): { readonly layer: Layer; readonly file: string } {
  const system = `${process.platform}-${process.arch}`
  if (!SYSTEMS.includes(system)) {
    const onWindows = process.platform === 'win32' ? '. On Windows, run the program in WSL 2' : ''
    throw unusable(`it is made for ${SYSTEMS.join(', ')}, and this is ${system}${onWindows}`)
  }
  const name = process.platform === 'linux' ? `${system}-${isMusl() ? 'musl' : 'glibc'}.node` : `${system}.node`
  const here = dirname(fileURLToPath(import.meta.url))
  // The folder beside `dist/src`, and the folder beside a bundle. Tools that copy what a program needs see by these paths which folder that is.
  const files = [join(here, '../../../native', name), join(here, 'native', name)]
  const file = files.find((path) => existsSync(path)) ?? files[0] ?? name
  try {
    return { layer: createRequire(import.meta.url)(file), file }
  } catch (error) {
    if (/MODULE_NOT_FOUND|Cannot find module/.test(inspect(error))) throw unusable(isMissing(name, files), error)
    const [, why] = FAILURES.find(([pattern]) => pattern.test(inspect(error))) ?? []
    throw unusable(`${why} (${messageOf(error).split('\n')[0]})`, error)
  }
}

const isMissing = (name: string, files: readonly string[]): string =>
  `${name} is in none of ${files.map((file) => dirname(file)).join(', ')}. Install cuda-streams again; copy the folder dist/native of the package beside the file of a bundle; in a checkout, run \`npm run build\` where there is a C compiler`

const unusable = (why: string, cause?: unknown): Error =>
  stateError('ERR_NO_DRIVER', `The native layer, which calls the NVIDIA driver, cannot be loaded: ${why}`, cause)
