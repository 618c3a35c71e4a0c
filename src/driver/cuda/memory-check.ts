/**
 * Looks at memory that may not be there. A wrong handle given to the driver is a segmentation fault; here it is an
 * answer. What a CUstream and a CUevent look like inside is not documented, so it is learnt from ones made for the
 * purpose, and where they do not look as expected nothing is concluded from it.
 */
import { koffi, NativeMemory } from './native.js'

/** Bytes of a stream's inner object in which the stream's own address is looked for. */
const INNER_BYTES = 512
const DATA = 64
const MOST_KNOWN = 1024

/** What is known of a handle without asking the driver. */
export type Verdict = 'alive' | 'unknown' | 'wrong'

export class MemoryCheck {
  readonly #memory = new NativeMemory(DATA + INNER_BYTES)
  readonly #reader: Reader
  /** Where in a stream's inner object its own address stands; undefined where that could not be learnt. */
  #selfOffset: number | undefined
  /** The inner objects of streams that were looked at. */
  readonly #known = new Map<number, number>()
  /** Does an event begin with the address of its context? */
  #eventNamesContext = false

  constructor() {
    this.#reader = makeReader(this.#memory)
  }

  /** Learns from a live stream and a live event what such things look like. */
  learn(stream: number, event: number, context: number): void {
    const inner = this.#pointerAt(stream)
    if (inner !== undefined && this.#read(inner, INNER_BYTES)) {
      for (let offset = 0; offset < INNER_BYTES; offset += 8) {
        if (this.#memory.pointerAt(DATA + offset) === stream) this.#selfOffset = offset
      }
    }
    this.#eventNamesContext = this.#pointerAt(event) === context
  }

  stream(handle: number): Verdict {
    if (this.#looksAsBefore(handle)) return 'alive'
    const inner = this.#pointerAt(handle)
    if (inner === undefined) return 'wrong'
    if (this.#selfOffset === undefined) return 'unknown'
    const self = this.#pointerAt(inner + this.#selfOffset)
    if (self === undefined) return 'wrong'
    if (self !== handle) return 'unknown'
    if (this.#known.size >= MOST_KNOWN) this.#known.clear()
    this.#known.set(handle, inner)
    return 'alive'
  }

  /** For a handle that was looked at before, both looks in one: a system call is what a look costs. */
  #looksAsBefore(handle: number): boolean {
    const inner = this.#known.get(handle)
    if (inner === undefined || this.#selfOffset === undefined) return false
    const same =
      this.#readTwo(handle, inner + this.#selfOffset) &&
      this.#memory.pointerAt(DATA) === inner &&
      this.#memory.pointerAt(DATA + 8) === handle
    if (!same) this.#known.delete(handle)
    return same
  }

  /** Which of the contexts an event belongs to, as far as can be seen. */
  event(handle: number, contexts: Iterable<number>): { readonly verdict: Verdict; readonly context?: number } {
    const first = this.#pointerAt(handle)
    if (first === undefined) return { verdict: 'wrong' }
    if (!this.#eventNamesContext) return { verdict: 'unknown' }
    for (const context of contexts) if (context === first) return { verdict: 'alive', context }
    return { verdict: this.#read(first, 8) ? 'unknown' : 'wrong' }
  }

  /** The pointer that stands at an address, if the address can be read. */
  #pointerAt(address: number): number | undefined {
    return address % 8 === 0 && this.#read(address, 8) ? this.#memory.pointerAt(DATA) : undefined
  }

  #read(address: number, length: number): boolean {
    return this.#reader(address, length) === length
  }

  #readTwo(first: number, second: number): boolean {
    return this.#reader(first, 8, second) === 16
  }
}

/**
 * Copies memory of this process to DATA, and 8 bytes from `second` behind it if that is given. Returns how many bytes
 * could be read.
 */
type Reader = (address: number, length: number, second?: number) => number

function makeReader(memory: NativeMemory): Reader {
  if (process.platform === 'win32') return windowsReader(memory)
  const libc = koffi().load(null)
  const P = 'uintptr_t'
  const processVmReadv = libc.func('process_vm_readv', 'int64', ['int', P, P, P, P, P])
  const { pid } = process
  // Three struct iovec: where to, then the one or two places to read.
  const local = memory.address
  const remote = memory.address + 16
  memory.uint64[0] = BigInt(memory.address + DATA)
  return (address, length, second) => {
    memory.uint64[1] = BigInt(second === undefined ? length : length + 8)
    memory.uint64[2] = BigInt(address)
    memory.uint64[3] = BigInt(length)
    if (second === undefined) return processVmReadv(pid, local, 1, remote, 1, 0) as number
    memory.uint64[4] = BigInt(second)
    memory.uint64[5] = 8n
    return processVmReadv(pid, local, 1, remote, 2, 0) as number
  }
}

function windowsReader(memory: NativeMemory): Reader {
  const kernel = koffi().load('kernel32.dll')
  const P = 'uintptr_t'
  const current = kernel.func('GetCurrentProcess', P, [])() as number
  const readProcessMemory = kernel.func('ReadProcessMemory', 'int', [P, P, P, P, P])
  const read = (address: number, to: number, length: number): number =>
    readProcessMemory(current, address, memory.address + to, length, 0) === 0 ? 0 : length
  return (address, length, second) => {
    const first = read(address, DATA, length)
    return second === undefined || first === 0 ? first : first + read(second, DATA + length, 8)
  }
}
