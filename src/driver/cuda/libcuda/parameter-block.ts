/** The arguments that a launch hands over to a kernel, laid out as in C. */
import { ELEMENT_TYPES, type ScalarType } from '../../../base/element-types.js'
import type { LaunchArgument } from '../../driver.js'
import { NativeMemory } from './native.js'

/** How a value is written: V8 compares numbers faster than texts. */
const Writer = { INT32: 0, INT64: 1, FLOAT32: 2, FLOAT64: 3 } as const

const writerOf = (type: ScalarType): number => {
  if (type === 'f32') return Writer.FLOAT32
  if (type === 'f64') return Writer.FLOAT64
  return ELEMENT_TYPES[type].bytes === 8 ? Writer.INT64 : Writer.INT32
}

/** The values of one kernel's parameters, and the array of pointers to them that a launch takes. CUDA copies them. */
export class ParameterBlock {
  readonly #writers: readonly number[]
  readonly #memory: NativeMemory
  readonly #view: DataView
  readonly #pointers: number

  constructor(types: readonly ScalarType[]) {
    this.#writers = types.map(writerOf)
    this.#memory = new NativeMemory(Math.max(16, 16 * types.length))
    this.#view = new DataView(this.#memory.bytes.buffer)
    this.#pointers = this.#memory.address + 8 * types.length
    for (const index of types.keys()) {
      this.#memory.uint64[types.length + index] = BigInt(this.#memory.address + 8 * index)
    }
  }

  get address(): number {
    return this.#memory.address
  }

  free(): void {
    this.#memory.free()
  }

  /** Returns the address of the pointers. */
  write(args: readonly LaunchArgument[]): number {
    const writers = this.#writers
    const view = this.#view
    for (let index = 0; index < writers.length; index += 1) {
      const given = args[index] ?? 0
      const value = typeof given === 'object' ? given.pointer : given
      const writer = writers[index]
      if (writer === Writer.INT64) writeInt64(view, 8 * index, value)
      else if (writer === Writer.INT32) view.setInt32(8 * index, Number(value), true)
      else if (writer === Writer.FLOAT32) view.setFloat32(8 * index, Number(value), true)
      else view.setFloat64(8 * index, Number(value), true)
    }
    return this.#pointers
  }
}

function writeInt64(view: DataView, offset: number, value: number | bigint): void {
  if (typeof value === 'bigint') view.setBigUint64(offset, BigInt.asUintN(64, value), true)
  else {
    view.setUint32(offset, value, true)
    view.setInt32(offset + 4, Math.floor(value * 2 ** -32), true)
  }
}
