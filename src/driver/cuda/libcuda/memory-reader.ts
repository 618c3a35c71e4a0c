/** Reads memory that may not be there: where it is not, that is an answer and no crash. */
import { readFileSync } from 'node:fs'
import { koffi, NativeMemory } from './native.js'

const P = 'uintptr_t'
const PAGE = 4096
/** The most that is read at once. */
export const MOST_WORDS = 8

/** Reads words of 8 bytes, each in one look where the system can. */
export class Reader {
  /** `copy` copies so many bytes to the words of `memory`. False where they cannot be read. */
  constructor(
    private readonly memory: NativeMemory,
    private readonly copy: (address: number, byteLength: number) => boolean,
  ) {}

  /** The pointer that stands at an address; undefined where the address cannot be read. */
  pointerAt(address: number): number | undefined {
    return this.copy(address, 8) ? this.memory.pointerAt(0) : undefined
  }

  /** So many words from an address on, valid until the next look; undefined where they cannot all be read. */
  wordsAt(address: number, count: number): BigUint64Array | undefined {
    return this.copy(address, 8 * count) ? this.memory.uint64.subarray(0, count) : undefined
  }
}

/**
 * Reads pointers in the heap that grows by brk, where small objects of the main thread live, without asking the kernel,
 * which costs more than all the rest of a look. Undefined for an address elsewhere. Only Linux has such a heap.
 */
export function heapReader(): (address: number) => number | undefined {
  const none = (): undefined => undefined
  if (process.platform !== 'linux') return none
  try {
    const line = readFileSync('/proc/self/maps', 'latin1').match(/^([0-9a-f]+)-[0-9a-f]+ .*\[heap\]$/m)
    if (line?.[1] === undefined) return none
    const start = Number.parseInt(line[1], 16)
    const sbrk = koffi().load(null).func('sbrk', P, ['intptr_t'])
    const { uint64 } = koffi().decode
    return (address) => (address >= start && address + 8 <= sbrk(0) ? Number(uint64(address)) : undefined)
  } catch {
    // Without /proc, or without sbrk, nothing is known to lie in the heap.
    return none
  }
}

/** The way that works in this process: some containers forbid the best one. */
export function safeReader(): Reader {
  if (process.platform === 'win32') return windowsReader()
  const byCopy = copyingReader()
  const known = new NativeMemory(8)
  known.uint64[0] = 42n
  const works = byCopy.pointerAt(known.address) === 42
  known.free()
  return works ? byCopy : mappingReader()
}

/** Has the kernel copy the bytes, which answers with an error where others would crash. */
export function copyingReader(): Reader {
  const memory = new NativeMemory(8 * MOST_WORDS)
  // Two struct iovec: where to, and where from.
  const vectors = new NativeMemory(32)
  const readv = koffi().load(null).func('process_vm_readv', 'int64', ['int', P, P, P, P, P])
  const { pid } = process
  vectors.uint64[0] = BigInt(memory.address)
  return new Reader(memory, (address, byteLength) => {
    vectors.uint64[1] = vectors.uint64[3] = BigInt(byteLength)
    vectors.uint64[2] = BigInt(address)
    return readv(pid, vectors.address, 1, vectors.address + 16, 1, 0) === byteLength
  })
}

/** Asks whether the pages are mapped, and reads them then. A page that is mapped but must not be read still crashes. */
export function mappingReader(): Reader {
  const memory = new NativeMemory(8 * MOST_WORDS)
  const answers = new NativeMemory(8)
  const mincore = koffi().load(null).func('mincore', 'int', [P, P, P])
  const { decode } = koffi()
  return new Reader(memory, (address, byteLength) => {
    const page = address - (address % PAGE)
    if (mincore(page, address + byteLength - page, answers.address) !== 0) return false
    for (let at = 0; at < byteLength; at += 8) memory.uint64[at / 8] = BigInt(decode.uint64(address + at))
    return true
  })
}

function windowsReader(): Reader {
  const memory = new NativeMemory(8 * MOST_WORDS)
  const kernel = koffi().load('kernel32.dll')
  const current = kernel.func('GetCurrentProcess', P, [])() as number
  const read = kernel.func('ReadProcessMemory', 'int', [P, P, P, P, P])
  return new Reader(memory, (address, byteLength) => read(current, address, memory.address, byteLength, 0) !== 0)
}
