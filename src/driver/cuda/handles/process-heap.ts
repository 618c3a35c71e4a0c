/**
 * The heap that grows by brk, where small objects of the main thread live: what lies in it can be read without asking
 * the kernel first, which costs more than all the rest of a look. It is a short cut only, and only Linux has it.
 */
import { readFileSync } from 'node:fs'
import { koffi } from '../libcuda/native.js'

export class ProcessHeap {
  #start = Number.POSITIVE_INFINITY
  #end: () => number = () => 0
  readonly #read: (address: number) => number | bigint = koffi().decode.uint64

  constructor() {
    if (process.platform !== 'linux') return
    try {
      const line = readFileSync('/proc/self/maps', 'latin1').match(/^([0-9a-f]+)-[0-9a-f]+ .*\[heap\]$/m)
      if (line?.[1] === undefined) return
      const sbrk = koffi().load(null).func('sbrk', 'uintptr_t', ['intptr_t'])
      this.#start = Number.parseInt(line[1], 16)
      this.#end = () => sbrk(0) as number
    } catch {
      // Without /proc, or without sbrk, nothing is known to lie in the heap.
    }
  }

  /** Do these bytes lie in the heap? */
  holds(address: number, length: number): boolean {
    return address >= this.#start && address + length <= this.#end()
  }

  /** The pointer that stands at an address in the heap. */
  pointerAt(address: number): number {
    return Number(this.#read(address))
  }
}
