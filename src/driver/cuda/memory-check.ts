/**
 * Looks at memory that may not be there. A wrong handle given to the driver is a segmentation fault; here it is an
 * answer. What a CUstream and a CUevent look like inside is not documented, so it is learnt from ones made for the
 * purpose, and where they do not look as expected nothing is concluded from it.
 */

import { koffi, NativeMemory } from './native.js'
import { ProcessHeap } from './process-heap.js'

/** Bytes of a stream's inner object in which the stream's own address is looked for. */
const INNER_BYTES = 512
const DATA = 64

/** What is known of a handle without asking the driver. */
export type Verdict = 'alive' | 'unknown' | 'wrong'

export class MemoryCheck {
  readonly #memory = new NativeMemory(DATA + INNER_BYTES)
  readonly #reader: Reader
  readonly #heap = new ProcessHeap()
  /** Where in a stream's inner object its own address stands; undefined where that could not be learnt. */
  #selfOffset: number | undefined
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
    const inner = this.#pointerAt(handle)
    if (inner === undefined) return 'wrong'
    if (this.#selfOffset === undefined) return 'unknown'
    const self = this.#pointerAt(inner + this.#selfOffset)
    if (self === undefined) return 'wrong'
    return self === handle ? 'alive' : 'unknown'
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
    if (address % 8 !== 0) return undefined
    if (this.#heap.holds(address, 8)) return this.#heap.pointerAt(address)
    return this.#read(address, 8) ? this.#memory.pointerAt(DATA) : undefined
  }

  #read(address: number, length: number): boolean {
    return this.#reader(address, length) === length
  }
}

/** Copies memory of this process to DATA. Returns how many bytes could be read. */
type Reader = (address: number, length: number) => number

function makeReader(memory: NativeMemory): Reader {
  if (process.platform === 'win32') return windowsReader(memory)
  const libc = koffi().load(null)
  const P = 'uintptr_t'
  const processVmReadv = libc.func('process_vm_readv', 'int64', ['int', P, P, P, P, P])
  const { pid } = process
  // Two struct iovec: where to, and where from.
  memory.uint64[0] = BigInt(memory.address + DATA)
  return (address, length) => {
    memory.uint64[1] = BigInt(length)
    memory.uint64[2] = BigInt(address)
    memory.uint64[3] = BigInt(length)
    return processVmReadv(pid, memory.address, 1, memory.address + 16, 1, 0) as number
  }
}

function windowsReader(memory: NativeMemory): Reader {
  const kernel = koffi().load('kernel32.dll')
  const P = 'uintptr_t'
  const current = kernel.func('GetCurrentProcess', P, [])() as number
  const readProcessMemory = kernel.func('ReadProcessMemory', 'int', [P, P, P, P, P])
  return (address, length) => (readProcessMemory(current, address, memory.address + DATA, length, 0) === 0 ? 0 : length)
}
