/** Launches as the tests of kernels state them, on whatever machine. */
import type { Triple } from '../../src/ptx/faults.js'
import type { LaunchOptions } from '../../src/ptx/launch.js'
import type { ParameterLayout } from '../../src/ptx/layout.js'

export type NumericArray =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array

export interface TestLaunch extends LaunchOptions {
  readonly grid?: number | Triple
  readonly block?: number | Triple
  readonly shared?: number
  readonly cooperative?: boolean
  readonly recorded?: boolean
  readonly checked?: boolean
  readonly budget?: number
}

export const triple = (given: number | Triple | undefined): Triple =>
  given === undefined ? [1, 1, 1] : typeof given === 'number' ? [given, 1, 1] : given

/** The bytes of a kernel's parameters: numbers are written as the parameters are declared, arrays are their bytes. */
export function parameterBytes(
  name: string,
  layout: ParameterLayout,
  parameters: readonly (number | bigint | NumericArray)[],
): Uint8Array {
  const bytes = new Uint8Array(layout.byteLength)
  const view = new DataView(bytes.buffer)
  for (const [index, [variable, offset]] of [...layout.offsets].entries()) {
    const value = parameters[index]
    if (value === undefined) throw new Error(`${name} has more parameters`)
    if (typeof value === 'object') {
      bytes.set(new Uint8Array(value.buffer, value.byteOffset, value.byteLength), offset)
    } else if (variable.type === 'f32') view.setFloat32(offset, Number(value), true)
    else if (variable.type === 'f64') view.setFloat64(offset, Number(value), true)
    else if (variable.byteLength === 8) view.setBigInt64(offset, BigInt(value), true)
    else view.setInt32(offset, Number(value), true)
  }
  return bytes
}
