/**
 * Memory that processes share: a file of no disk, which lives as long as a process has it open or mapped. Another process of the same
 * user opens it by the process that made it.
 */

import { messageOf, stateError } from '../base/errors.js'
import { process } from '../base/node-modules.js'
import { inProc, randomNumber } from '../base/system-threads.js'
import { bindAll, declaration, own } from './c-functions.js'
import { layer } from './layer.js'
import { NativeMemory } from './native-memory.js'
import { OwnedKind, Trait } from './owned-handles.js'
import { SharedLibrary } from './shared-library.js'

/** The bytes of a handle; those behind the first 48 are 0. */
export const HANDLE_BYTES = 64
/** What handles begin with. */
const MAGIC = 0x4d_49_53_43_55_44_41n
/** What is in a file, by the number that its handle has for it: no file is opened as what it is not. */
export const Contents = { MEMORY: 1, EVENT: 2, RANKS: 3 } as const

export type Contents = (typeof Contents)[keyof typeof Contents]

/** What a handle says. */
interface Claims {
  readonly contents: number
  readonly process: number
  readonly file: number
  readonly byteLength: number
  /** The number that the system gives the file, which none of its others has. */
  readonly inode: bigint
}

/** How a system has such files. */
interface Files {
  /** Makes one of zeros; undefined where there is no memory. */
  make(byteLength: number): Pick<Claims, 'file' | 'inode'> | undefined
  /** Opens that of another process; undefined where it has closed it. */
  open(claims: Claims): number | undefined
  close(file: number): void
  /** What a thread leaves when it ends without having closed it. */
  readonly left: { readonly files: OwnedKind; readonly mappings: OwnedKind }
}

/** Throws ERR_UNSUPPORTED where the native layer cannot be loaded. */
function files(): Files {
  try {
    known ??= process.platform === 'win32' ? filesOfWindows() : filesOfLinux()
    return known
  } catch (cause) {
    const what = 'Simulated memory and events cannot be shared with other processes'
    throw stateError('ERR_UNSUPPORTED', `${what}: ${messageOf(cause)}`, cause)
  }
}

let known: Files | undefined

export class MemoryFile {
  readonly buffer: ArrayBuffer
  readonly #address: number

  private constructor(
    /** The bytes by which other processes open the file. */
    readonly handle: Uint8Array,
    readonly byteLength: number,
    /** The file's number in the process that made it; undefined in others. */
    private readonly file: number | undefined,
    mapped: number,
  ) {
    this.#address = own().mapFile(mapped, byteLength)
    if (this.#address === 0) throw new RangeError(`${byteLength} bytes that processes share cannot be mapped`)
    files().left.mappings.add(this.#address, byteLength)
    if (file !== undefined) files().left.files.add(file)
    this.buffer = layer().view(this.#address, byteLength)
  }

  /** Makes a file of zeros. */
  static make(byteLength: number, contents: Contents): MemoryFile {
    const made = files().make(byteLength)
    if (made === undefined)
      throw new RangeError(`The system gives no ${byteLength} bytes to share with other processes`)
    const handle = handleOf({ process: process.pid, byteLength, contents, ...made })
    try {
      return new MemoryFile(handle, byteLength, made.file, made.file)
    } catch (error) {
      files().close(made.file)
      throw error
    }
  }

  /**
   * Opens the file of another process. Undefined where the bytes are no handle of a file with such contents, and where
   * that process has closed it.
   */
  static open(handle: Uint8Array, contents: Contents): MemoryFile | undefined {
    const claims = claimsOf(handle)
    if (claims?.contents !== contents) return undefined
    const file = files().open(claims)
    if (file === undefined) return undefined
    try {
      return new MemoryFile(handle.slice(0, HANDLE_BYTES), claims.byteLength, undefined, file)
    } finally {
      files().close(file)
    }
  }

  /** Is the handle one that this process has made? */
  static isOwn(handle: Uint8Array): boolean {
    return claimsOf(handle)?.process === process.pid
  }

  /** What the file of a handle has in it, as a number of `Contents`. Undefined where the bytes are no handle. */
  static contentsOf(handle: Uint8Array): number | undefined {
    return claimsOf(handle)?.contents
  }

  /** Has another process made the file? */
  get isOfOther(): boolean {
    return this.file === undefined
  }

  /** The views become empty. Other processes that have it open keep it. */
  close(): void {
    layer().detach(this.buffer)
    const { left, close } = files()
    left.mappings.remove(this.#address)
    own().unmap(this.#address, this.byteLength)
    if (this.file === undefined) return
    left.files.remove(this.file)
    close(this.file)
  }
}

function left(close: number, name: string, traits: number): Files['left'] {
  const unmap = layer().functions['unmap'] ?? 0
  return { files: new OwnedKind(close, name, traits), mappings: new OwnedKind(unmap, 'unmap', 0) }
}

/** Files without a name, which another process opens by the number that this one has for them. */
function filesOfLinux(): Files {
  const closeOnExec = 1
  /** O_RDWR and O_CLOEXEC. */
  const readAndWrite = 0o2000002
  // Not those of node:fs: on Deno a file has another number there than the system gives it.
  const system = SharedLibrary.ofProcess.functions({
    memfd_create: 'const char *name, unsigned int flags',
    open: 'const char *path, int flags',
    ftruncate: 'int file, Word length',
    close: 'int file',
  })
  const statOf = (file: number) =>
    process.getBuiltinModule('node:fs').statSync(inProc('self', 'fd', file), { bigint: true })
  return {
    make: (byteLength) => {
      const file = withText('cuda-streams', (name) => system.memfd_create(name, closeOnExec))
      if (file < 0) return undefined
      if (system.ftruncate(file, byteLength) === 0) return { file, inode: statOf(file).ino }
      system.close(file)
      return undefined
    },
    open: (claims) => {
      const path = inProc(claims.process, 'fd', claims.file)
      const file = withText(path, (text) => system.open(text, readAndWrite))
      if (file < 0) return undefined
      const { ino, size } = statOf(file)
      if (ino === claims.inode && size === BigInt(claims.byteLength)) return file
      system.close(file)
      return undefined
    },
    close: system.close,
    left: left(SharedLibrary.ofProcess.addressOf('close'), 'close', Trait.IS_INT),
  }
}

/** Memory with a name, which says what it is: without such memory there is none of that name. */
function filesOfWindows(): Files {
  const library = SharedLibrary.open('kernel32.dll')
  const { CloseHandle } = library.functions({ CloseHandle: 'void *file' })
  const { OpenFileMappingA } = library.addresses({
    OpenFileMappingA: 'unsigned int access, int inherit, const char *name',
  })
  const parameters =
    'void *file, void *security, unsigned int access, unsigned int high, unsigned int low, const char *name'
  const { CreateFileMappingA } = bindAll([
    declaration('CreateFileMappingA', library.addressOf('CreateFileMappingA'), parameters, 'address8'),
  ])
  const [memory, readWrite, map] = [-1, 4, 6]
  const nameOf = (claims: Pick<Claims, 'process' | 'inode' | 'byteLength'>): string =>
    `Local\\cuda-streams-${claims.process}-${claims.inode}-${claims.byteLength}`
  return {
    make: (byteLength) => {
      const inode = BigInt(randomNumber()) * 2n ** 31n + BigInt(randomNumber())
      const file = withText(nameOf({ process: process.pid, inode, byteLength }), (name) =>
        CreateFileMappingA(memory, 0, readWrite, Math.floor(byteLength / 2 ** 32), byteLength % 2 ** 32, name),
      )
      return file === 0 ? undefined : { file, inode }
    },
    open: (claims) => withText(nameOf(claims), (name) => OpenFileMappingA(map, 0, name)) || undefined,
    close: CloseHandle,
    left: left(library.addressOf('CloseHandle'), 'CloseHandle', 0),
  }
}

function withText(text: string, call: (address: number) => number): number {
  const memory = NativeMemory.ofText(text)
  try {
    return call(memory.address)
  } finally {
    memory.free()
  }
}

function handleOf({ process: number, file, byteLength, inode, contents }: Claims): Uint8Array {
  const handle = new Uint8Array(HANDLE_BYTES)
  const words = [MAGIC, BigInt(number), BigInt(file), BigInt(byteLength), inode, BigInt(contents)]
  new BigUint64Array(handle.buffer).set(words)
  return handle
}

function claimsOf(handle: Uint8Array): Claims | undefined {
  const words = new BigUint64Array(handle.slice(0, HANDLE_BYTES).buffer)
  const [magic, number = 0n, file = 0n, byteLength = 0n, inode = 0n, contents = 0n] = words
  if (magic !== MAGIC) return undefined
  return {
    process: Number(number),
    file: Number(file),
    byteLength: Number(byteLength),
    inode,
    contents: Number(contents),
  }
}
