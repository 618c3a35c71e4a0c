/**
 * Memory that processes share: a file without a name, which lives as long as a process has it open or mapped. Another process of the same
 * user opens it by the process that made it.
 */
import { messageOf, stateError } from '../base/errors.js'
import { process } from '../base/node-modules.js'
import { own } from './c-functions.js'
import { layer } from './layer.js'
import { NativeMemory } from './native-memory.js'
import { SharedLibrary } from './shared-library.js'

/** The bytes of a handle; those behind the first 40 are 0. */
export const HANDLE_BYTES = 64
/** What handles begin with. */
const MAGIC = 0x4d_49_53_43_55_44_41n
const CLOSE_ON_EXEC = 1
/** O_RDWR and O_CLOEXEC. */
const READ_AND_WRITE = 0o2000002

let systemCalls: ReturnType<typeof bindSystemCalls> | undefined
/** Not those of node:fs: on Deno a file has another number there than the system gives it. */
const bindSystemCalls = () =>
  SharedLibrary.ofProcess.functions({
    memfd_create: 'const char *name, unsigned int flags',
    open: 'const char *path, int flags',
    ftruncate: 'int file, Word length',
    close: 'int file',
  })

/** The functions. Throws ERR_UNSUPPORTED where the native layer cannot be loaded. */
function system(): ReturnType<typeof bindSystemCalls> {
  const what = 'Simulated memory and events cannot be shared with other processes'
  if (process.platform === 'win32')
    throw stateError('ERR_UNSUPPORTED', `${what} on Windows: they are in files of Linux`)
  try {
    systemCalls ??= bindSystemCalls()
    return systemCalls
  } catch (cause) {
    throw stateError('ERR_UNSUPPORTED', `${what}: ${messageOf(cause)}`, cause)
  }
}

/** What a handle says. */
interface Claims {
  readonly process: number
  readonly file: number
  readonly byteLength: number
  /** The number that the system gives the file, which none of its others has. */
  readonly inode: bigint
}

export class MemoryFile {
  readonly buffer: ArrayBuffer
  readonly #address: number

  private constructor(
    /** By which other processes open it. */
    readonly handle: Uint8Array,
    readonly byteLength: number,
    /** Its number in the process that made it; undefined in others. */
    private readonly file: number | undefined,
    mapped: number,
  ) {
    this.#address = own().mapFile(mapped, byteLength)
    if (this.#address === 0) throw new RangeError(`${byteLength} bytes that processes share cannot be mapped`)
    this.buffer = layer().view(this.#address, byteLength)
  }

  /** Makes a file of zeros. */
  static make(byteLength: number): MemoryFile {
    const file = withText('cuda-streams', (name) => system().memfd_create(name, CLOSE_ON_EXEC))
    if (file < 0 || system().ftruncate(file, byteLength) < 0) {
      throw new RangeError(`The system gives no ${byteLength} bytes to share with other processes`)
    }
    const { ino } = statOf(file)
    return new MemoryFile(handleOf({ process: process.pid, file, byteLength, inode: ino }), byteLength, file, file)
  }

  /** Opens the file of another process. Undefined where the bytes are no handle, and where that process has closed it. */
  static open(handle: Uint8Array): MemoryFile | undefined {
    const claims = claimsOf(handle)
    if (claims === undefined) return undefined
    const path = `/proc/${claims.process}/fd/${claims.file}`
    const file = withText(path, (text) => system().open(text, READ_AND_WRITE))
    if (file < 0) return undefined
    try {
      const { ino, size } = statOf(file)
      if (ino !== claims.inode || size !== BigInt(claims.byteLength)) return undefined
      return new MemoryFile(handle.slice(0, HANDLE_BYTES), claims.byteLength, undefined, file)
    } finally {
      system().close(file)
    }
  }

  /** Is it a handle that this process has made? */
  static isOwn(handle: Uint8Array): boolean {
    return claimsOf(handle)?.process === process.pid
  }

  /** Has another process made it? */
  get isOfOther(): boolean {
    return this.file === undefined
  }

  /** The views become empty. Other processes that have it open keep it. */
  close(): void {
    layer().detach(this.buffer)
    own().unmap(this.#address, this.byteLength)
    if (this.file !== undefined) system().close(this.file)
  }
}

function withText(text: string, call: (address: number) => number): number {
  system()
  const memory = NativeMemory.ofText(text)
  try {
    return call(memory.address)
  } finally {
    memory.free()
  }
}

const statOf = (file: number) => process.getBuiltinModule('node:fs').statSync(`/proc/self/fd/${file}`, { bigint: true })

function handleOf({ process: number, file, byteLength, inode }: Claims): Uint8Array {
  const handle = new Uint8Array(HANDLE_BYTES)
  new BigUint64Array(handle.buffer).set([MAGIC, BigInt(number), BigInt(file), BigInt(byteLength), inode])
  return handle
}

function claimsOf(handle: Uint8Array): Claims | undefined {
  const words = new BigUint64Array(handle.slice(0, HANDLE_BYTES).buffer)
  const [magic, number = 0n, file = 0n, byteLength = 0n, inode = 0n] = words
  if (magic !== MAGIC) return undefined
  return { process: Number(number), file: Number(file), byteLength: Number(byteLength), inode }
}
