/** CUDA as another library calls it: the driver's own functions, of which the library under test hears nothing. */
import koffi from 'koffi'
import { NativeMemory } from '../../../../src/foundation/native/native-memory.js'
import { DRIVER_FILE } from '../../../helpers/driver-file.js'

const P = 'uintptr_t'

export class ForeignCuda {
  readonly #library = koffi.load(DRIVER_FILE)
  readonly #memory = new NativeMemory(8)
  readonly #create = this.#library.func('cuStreamCreateWithPriority', 'int', [P, 'uint32_t', 'int'])
  readonly #id = this.#library.func('cuStreamGetId', 'int', [P, P])
  readonly #fill = this.#library.func('cuMemsetD8Async', 'int', [P, 'uint32_t', 'size_t', P])

  /** A non-blocking stream. */
  stream(): number {
    this.#check(this.#create(this.#memory.address, 1, 0))
    return this.#memory.pointerAt(0)
  }

  idOf(stream: number): bigint {
    this.#check(this.#id(stream, this.#memory.address))
    return this.#memory.uint64[0] ?? 0n
  }

  fill(pointer: bigint, byteLength: number, stream: number | bigint): void {
    this.#check(this.#fill(Number(pointer), 1, byteLength, Number(stream)))
  }

  /** The same on a thread that is not of JavaScript. */
  fillOnThread(pointer: bigint, byteLength: number, stream: number | bigint): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#fill.async(Number(pointer), 1, byteLength, Number(stream), (error: unknown, result: number) =>
        error === null && result === 0 ? resolve() : reject(new Error(`cuMemsetD8Async: ${result}`)),
      )
    })
  }

  /** Fills 21 bytes so many times on a thread of the fake CUPTI. The result tells how often that is still to be. */
  fillOften(pointer: bigint, stream: number, count: number): () => number {
    const library = koffi.load(process.env['CUDA_STREAMS_CUPTI'] ?? '')
    library.func('fillOften', 'void', [P, P, 'int'])(Number(pointer), stream, count)
    return library.func('fillsLeft', 'int', [])
  }

  #check(result: number): void {
    if (result !== 0) throw new Error(`CUDA: ${result}`)
  }
}
