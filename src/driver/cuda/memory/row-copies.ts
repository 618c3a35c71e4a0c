/** Copies of rows, by `cuMemcpy3DAsync`: one entry of the hardware queue, however many rows there are. */
import { bytesIn, type MemoryRows, type Pointer, type StreamHandle } from '../../driver.js'
import { NativeMemory } from '../libcuda/native.js'
import type { LibcudaParts } from '../libcuda/stream-calls.js'
import type { CopyOrder } from './copy-order.js'

/** The kind of memory that has CUDA look at the pointer. */
export const UNIFIED = 4
/** Where the fields of a CUDA_MEMCPY3D begin, in words of 8 bytes; the other end has the same some words later. */
export const Field = { TYPE: 4, DEVICE: 6, PITCH: 9, HEIGHT: 10, WIDTH: 22, ROWS: 23, DEPTH: 24 } as const
export const DESTINATION = 11
const STRUCT_BYTES = 200

export class RowCopies {
  #struct: NativeMemory | undefined

  constructor(
    private readonly parts: LibcudaParts,
    private readonly order: CopyOrder,
  ) {}

  copy(destination: Pointer, source: Pointer, to: MemoryRows, from: MemoryRows, stream: StreamHandle): void {
    this.#struct ??= new NativeMemory(STRUCT_BYTES)
    const { bytes, address } = this.#struct
    bytes.fill(0)
    const set = (field: number, value: number): void => this.#struct?.setPointer(8 * field, value)
    const describe = (
      at: number,
      pointer: Pointer,
      { rows, rowDistance, matrices, matrixDistance }: MemoryRows,
    ): void => {
      set(at + Field.TYPE, UNIFIED)
      set(at + Field.DEVICE, pointer)
      set(at + Field.PITCH, rowDistance)
      set(at + Field.HEIGHT, matrices === 1 ? rows : matrixDistance / rowDistance)
    }
    describe(0, source, from)
    describe(DESTINATION, destination, to)
    set(Field.WIDTH, to.rowLength)
    set(Field.ROWS, to.rows)
    set(Field.DEPTH, to.matrices)
    const { library, calls } = this.parts
    calls.inContextOf(
      stream,
      'cuMemcpy3DAsync',
      (raw) => this.order.before(stream, raw, bytesIn(to)) || library.cuMemcpy3DAsync_v2(address, raw),
    )
  }
}
