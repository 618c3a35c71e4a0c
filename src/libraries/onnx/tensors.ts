/** What a model reads and writes: the names, types and shapes of its tensors, and the buffers that a run is given for them. */

import { type DeviceBuffer, isDeviceBuffer } from '../../core/memory/device-buffer.js'
import type { Stream } from '../../core/stream.js'
import { checkIntegers, nearest, readOptions, readProperties } from '../../foundation/base/arguments.js'
import { ELEMENT_TYPES, type ElementTypeName } from '../../foundation/base/element-types.js'
import { invalidType, invalidValue, outOfRange } from '../../foundation/base/errors.js'
import { printable } from '../../foundation/base/printable.js'
import { checkDeviceBuffer, type GivenMemory } from '../library-call.js'

/** The type of elements: signed, unsigned, floating and complex types by their bits, such as 'f32', 'i64', 'bool'. */
export type OnnxType = ElementTypeName

/** An input or an output of a model. */
export interface TensorInfo {
  /** The tensor's name in the model. */
  readonly name: string
  /** The type of its elements. */
  readonly type: OnnxType
  /** Elements in each direction. A name stands for a number that each run chooses, the same in all places; '' for one without a name. */
  readonly dims: readonly (number | string)[]
}

/** Memory for an input or an output, with the elements in each direction. They lie in row-major order, without gaps. */
export interface ShapedBuffer {
  /** The memory, from its first element on. It may be longer. */
  readonly buffer: DeviceBuffer
  /** Elements in each direction, the slowest first. */
  readonly shape: readonly number[]
}

/** Buffers by the names of inputs or outputs. Those whose shape the model leaves open need one. */
export type RunBuffers = Readonly<Record<string, DeviceBuffer | ShapedBuffer>>

/** A tensor of one run. */
export interface RunTensor {
  readonly info: TensorInfo
  readonly shape: readonly number[]
  readonly memory: GivenMemory
}

/** Kernels read up to 16 bytes at once. */
const ALIGNMENT = 16

interface Given {
  readonly info: TensorInfo
  /** The tensor's name in messages. */
  readonly name: string
  readonly access: 'in' | 'out'
  readonly buffer: DeviceBuffer
  readonly shape: readonly number[] | undefined
}

/**
 * The tensors of a run: all inputs, and the outputs that are wanted, in the model's order. Throws ERR_INVALID_ARG_TYPE,
 * ERR_INVALID_ARG_VALUE for a name that the model does not have and a shape that contradicts it, ERR_OUT_OF_RANGE for a buffer that is too
 * short, ERR_DEVICE_MISMATCH.
 */
export function checkTensors(
  model: { readonly inputs: readonly TensorInfo[]; readonly outputs: readonly TensorInfo[] },
  inputs: RunBuffers,
  outputs: RunBuffers,
  stream: Stream,
): readonly RunTensor[] {
  const given = [...read(model.inputs, inputs, 'inputs'), ...read(model.outputs, outputs, 'outputs')]
  if (!given.some(({ access }) => access === 'out')) {
    throw invalidType('outputs', `an object with a buffer for one of ${listed(model.outputs)}`, outputs)
  }
  const sizes = new Map<string, number>()
  // A shape that is given says what the names in others stand for.
  for (const each of given) if (each.shape !== undefined) checkShape(each, each.shape, sizes)
  return given.map((each) => {
    const shape = each.shape ?? shapeOf(each, sizes)
    return { info: each.info, shape, memory: memoryOf(each, shape, stream) }
  })
}

const listed = (tensors: readonly TensorInfo[]): string => `'${tensors.map(({ name }) => name).join("', '")}'`

/** The buffers, each read once. */
function read(tensors: readonly TensorInfo[], buffers: RunBuffers, side: 'inputs' | 'outputs'): readonly Given[] {
  const expected = `an object with buffers for ${listed(tensors)}`
  if (buffers === undefined || isDeviceBuffer(buffers)) throw invalidType(side, expected, buffers)
  const names = tensors.map(({ name }) => name)
  const values = readProperties(buffers, names, side)
  for (const name of Object.keys(buffers)) if (!names.includes(name)) throw unknownName(name, names, side)
  return tensors.flatMap((info): Given[] => {
    const value = values[info.name]
    if (value === undefined && side === 'outputs') return []
    const name = `${side}.${info.name}`
    const access = side === 'inputs' ? 'in' : 'out'
    if (isDeviceBuffer(value)) return [{ info, name, access, buffer: value, shape: undefined }]
    if (typeof value !== 'object' || value === null)
      throw invalidType(name, 'a DeviceBuffer, or { buffer, shape }', value)
    const { buffer, shape } = readOptions(value, ['buffer', 'shape'], name)
    if (!isDeviceBuffer(buffer)) throw invalidType(`${name}.buffer`, 'a DeviceBuffer', buffer)
    const extents = shape === undefined ? undefined : checkIntegers(shape, `${name}.shape`, 'an array of integers', 0)
    return [{ info, name, access, buffer, shape: extents }]
  })
}

function unknownName(name: string, names: readonly string[], side: 'inputs' | 'outputs'): Error {
  const meant = nearest(name, names)
  const way = meant === undefined ? `its ${side} are '${names.join("', '")}'` : `did you mean '${meant}'?`
  return invalidValue(`${side}.${printable(name)}: the model has no ${side.slice(0, -1)} of this name: ${way}`)
}

/** A tensor as messages have it, such as f32 [batch, 784]. */
const describeTensor = ({ type, dims }: Pick<TensorInfo, 'type' | 'dims'>): string =>
  `${type} [${dims.map((dim) => (dim === '' ? '?' : dim)).join(', ')}]`

function checkShape({ info, name }: Given, shape: readonly number[], sizes: Map<string, number>): void {
  const { dims } = info
  const wrong = (why: string): Error =>
    invalidValue(`${name}.shape is [${shape.join(', ')}], and the model has ${describeTensor(info)} there${why}`)
  if (shape.length !== dims.length) throw wrong('')
  for (const [axis, size] of shape.entries()) {
    const dim = dims[axis] ?? ''
    if (dim === '') continue
    const known = typeof dim === 'number' ? dim : sizes.get(dim)
    if (known !== undefined && known !== size)
      throw wrong(typeof dim === 'number' ? '' : `, where '${dim}' is ${known}`)
    if (typeof dim === 'string') sizes.set(dim, size)
  }
}

/** The shape of a tensor for which none was given. */
function shapeOf({ info, name, buffer }: Given, sizes: ReadonlyMap<string, number>): readonly number[] {
  return info.dims.map((dim) => {
    const size = typeof dim === 'number' ? dim : sizes.get(dim)
    if (size !== undefined) return size
    const open = dim === '' ? 'a size' : `'${dim}'`
    const way = `the model has ${describeTensor(info)} there, and no shape that is given says what ${open} is`
    throw invalidType(name, '{ buffer, shape }', buffer, way)
  })
}

function memoryOf({ info, name, access, buffer }: Given, shape: readonly number[], stream: Stream): GivenMemory {
  const { bytes } = ELEMENT_TYPES[info.type]
  checkDeviceBuffer(buffer, name, bytes, stream)
  if (Number(buffer.pointer) % ALIGNMENT !== 0) {
    throw invalidValue(
      `${name} must begin at a multiple of ${ALIGNMENT} bytes, for kernels that read as many at once: ${buffer}`,
    )
  }
  const byteLength = shape.reduce((product, size) => product * size, bytes)
  if (buffer.byteLength >= byteLength) return { buffer, access, byteLength, rows: undefined }
  const expected = `${byteLength} bytes long or longer, for ${describeTensor({ type: info.type, dims: shape })}`
  throw outOfRange(name, expected, buffer.byteLength)
}

/** Throws ERR_INVALID_ARG_VALUE if an output overlaps an input or another output. */
export function checkApart(
  tensors: readonly RunTensor[],
  memory: readonly { readonly pointer: number; readonly byteLength: number }[],
): void {
  for (const [index, tensor] of tensors.entries()) {
    if (tensor.memory.access !== 'out') continue
    const output = memory[index]
    for (const [other, piece] of memory.entries()) {
      if (output === undefined || other === index) continue
      if (piece.pointer >= output.pointer + output.byteLength || output.pointer >= piece.pointer + piece.byteLength)
        continue
      const names = `'${tensors[other]?.info.name}' and '${tensor.info.name}'`
      throw invalidValue(`The buffers for ${names} overlap: a model writes its outputs while it still reads`)
    }
  }
}
