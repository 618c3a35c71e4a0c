/** koffi, loaded at the first use of a real driver: importing the package loads no library. */
import { createRequire } from 'node:module'
import { inspect } from 'node:util'
import type * as Koffi from 'koffi'
import { messageOf, stateError } from '../../../base/errors.js'

let loaded: typeof Koffi | undefined

/** NVRTC calls itself deeply, and koffi gives a call on another thread 128 KiB of stack unless told otherwise. */
const STACK_BYTES = 16 * 1024 * 1024
const RTLD_NOW = 2
const RTLD_NODELETE = 0x1000

/** Why koffi cannot be loaded, by the code and message of the error, and the way out. */
const FAILURES: readonly (readonly [RegExp, string])[] = [
  [
    /find (module|package) '?koffi/i,
    'it is not installed. Install it (npm install koffi); where the program is bundled, leave it outside of the bundle',
  ],
  [
    /the native Koffi module|koffi\.node'|Cannot find module '.*@koromix/,
    `its binary for ${process.platform}-${process.arch} is missing. Install on the platform that the program runs on, without --omit=optional; where the program is bundled, leave koffi outside of the bundle`,
  ],
  [
    /DLOPEN_DISABLED/,
    'Node may not load native addons. Start it with --allow-addons beside --permission, and without --no-addons',
  ],
  [/ACCESS_DENIED/, 'Node may not read its files. Start it with --allow-fs-read for node_modules'],
  [/NotCapable/, 'Deno may not load it. Start it with --allow-ffi, --allow-read, --allow-env and --allow-sys'],
  [/./, 'its binary does not load. Install it anew'],
]

/** @throws ERR_NO_DRIVER, with the way out */
export function koffi(): typeof Koffi {
  loaded ??= load()
  return loaded
}

function load(): typeof Koffi {
  const require = createRequire(import.meta.url)
  let library: typeof Koffi
  try {
    library = require('koffi')
  } catch (error) {
    const [, why] = FAILURES.find(([pattern]) => pattern.test(inspect(error))) ?? []
    throw stateError(
      'ERR_NO_DRIVER',
      `koffi, which calls the NVIDIA driver, cannot be loaded: ${why} (${messageOf(error).split('\n')[0]})`,
      error,
    )
  }
  try {
    library.config({ ...library.config(), sync_stack_size: STACK_BYTES, async_stack_size: STACK_BYTES })
  } catch {
    // The program has called C by koffi before: its own settings stand.
  }
  if (process.platform === 'linux') keepLoaded(library, require)
  return library
}

/**
 * Node unmaps a native addon when the last thread that loaded it ends, although the event loop of that thread may still
 * call into it while it is taken down (`uv__finish_close`). So it stays in memory from the first use on.
 */
function keepLoaded(library: typeof Koffi, require: NodeJS.Require): void {
  const dlopen = library.load(null).func('dlopen', 'uintptr_t', ['str', 'int'])
  for (const path of Object.keys(require.cache)) {
    if (path.endsWith('koffi.node')) dlopen(path, RTLD_NOW | RTLD_NODELETE)
  }
}

/** Memory outside V8's heap: it does not move, so that C may keep its address. */
export class NativeMemory {
  readonly address: number
  readonly bytes: Uint8Array
  readonly int32: Int32Array
  readonly uint32: Uint32Array
  readonly float32: Float32Array
  readonly uint64: BigUint64Array

  constructor(length: number, address: number = Number(koffi().alloc('uint64', length / 8))) {
    const buffer = koffi().view(BigInt(address), length)
    this.address = address
    this.bytes = new Uint8Array(buffer)
    this.int32 = new Int32Array(buffer)
    this.uint32 = new Uint32Array(buffer)
    this.float32 = new Float32Array(buffer)
    this.uint64 = new BigUint64Array(buffer)
  }

  /** Gives it back: the views must not be used any more. Without this it lives as long as the process. */
  free(): void {
    koffi().free(BigInt(this.address))
  }

  /** The pointer stored at this offset, a multiple of 8. */
  pointerAt(offset: number): number {
    // Not by way of a bigint, which has to be allocated.
    return (this.uint32[offset / 4] ?? 0) + (this.uint32[offset / 4 + 1] ?? 0) * 2 ** 32
  }
}
