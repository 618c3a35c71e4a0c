/** Writes ONNX models: the few messages of Protocol Buffers that a graph with nodes and weights needs. */
import { ELEMENT_TYPES, type ElementTypeName } from '../../../src/foundation/base/element-types.js'

type Field = readonly [number: number, value: number | string | Uint8Array | readonly Field[]]

/** A Float32 field: all other numbers are integers. */
class Single {
  constructor(readonly value: number) {}
}

function varint(value: number | bigint): number[] {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, BigInt(value))
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  return [...bytes, Number(rest)]
}

function message(fields: readonly (Field | readonly [number: number, value: Single])[]): Uint8Array {
  const parts = fields.map(([number, value]) => {
    if (typeof value === 'number') return Uint8Array.from([...varint(number << 3), ...varint(value)])
    if (value instanceof Single) {
      return Uint8Array.from([...varint((number << 3) | 5), ...new Uint8Array(Float32Array.of(value.value).buffer)])
    }
    const bytes =
      typeof value === 'string' ? new TextEncoder().encode(value) : value instanceof Uint8Array ? value : message(value)
    return Buffer.concat([Uint8Array.from([...varint((number << 3) | 2), ...varint(bytes.length)]), bytes])
  })
  return new Uint8Array(Buffer.concat(parts))
}

export interface ModelTensor {
  readonly name: string
  readonly type: ElementTypeName
  readonly dims: readonly (number | string)[]
}

/** Integers become int attributes; lists of them ints; `{ float }` a float. */
type Attribute = number | readonly number[] | { readonly float: number }

export interface ModelNode {
  readonly op: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly attributes?: Readonly<Record<string, Attribute>>
}

export interface Weight {
  readonly name: string
  readonly dims: readonly number[]
  readonly data: Float32Array | BigInt64Array
}

export interface Model {
  readonly name: string
  readonly inputs: readonly ModelTensor[]
  readonly outputs: readonly ModelTensor[]
  readonly nodes: readonly ModelNode[]
  readonly weights?: readonly Weight[]
}

const typeOf = ({ type, dims }: ModelTensor): readonly Field[] => [
  [1, ELEMENT_TYPES[type].onnx],
  [2, dims.map((dim): Field => [1, [typeof dim === 'number' ? [1, dim] : [2, dim]]])],
]

/** ValueInfoProto */
const valueInfo = (tensor: ModelTensor): readonly Field[] => [
  [1, tensor.name],
  [2, [[1, typeOf(tensor)]]],
]

function attribute(name: string, value: Attribute): Uint8Array {
  if (typeof value === 'number') return message([[1, name], [3, value], [20, 2]]) // biome-ignore format: one message
  if ('float' in value) return message([[1, name], [2, new Single(value.float)], [20, 1]]) // biome-ignore format: one message
  return message([[1, name], ...value.map((each): Field => [8, each]), [20, 7]])
}

/** NodeProto */
const nodeProto = ({ op, inputs, outputs, attributes = {} }: ModelNode): readonly Field[] => [
  ...inputs.map((name): Field => [1, name]),
  ...outputs.map((name): Field => [2, name]),
  [4, op],
  ...Object.entries(attributes).map(([name, value]): Field => [5, attribute(name, value)]),
]

/** TensorProto */
const tensorProto = ({ name, dims, data }: Weight): readonly Field[] => [
  ...dims.map((dim): Field => [1, dim]),
  [2, data instanceof Float32Array ? ELEMENT_TYPES.f32.onnx : ELEMENT_TYPES.i64.onnx],
  [8, name],
  [9, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)],
]

const IR_VERSION = 8
const OPSET = 17

/** The bytes of an ONNX file. */
export const writeModel = ({ name, inputs, outputs, nodes, weights = [] }: Model): Uint8Array =>
  message([
    [1, IR_VERSION],
    [8, [[2, OPSET]]],
    [
      7,
      [
        ...nodes.map((node): Field => [1, nodeProto(node)]),
        [2, name],
        ...weights.map((weight): Field => [5, tensorProto(weight)]),
        ...inputs.map((input): Field => [11, valueInfo(input)]),
        ...outputs.map((output): Field => [12, valueInfo(output)]),
      ],
    ],
  ])

/** A model with an input that is no tensor, but a sequence of some. */
export const sequenceModel = (): Uint8Array =>
  message([
    [1, IR_VERSION],
    [8, [[2, OPSET]]],
    [
      7,
      [
        [1, nodeProto({ op: 'ConcatFromSequence', inputs: ['many'], outputs: ['one'], attributes: { axis: 0 } })],
        [2, 'sequence'],
        [11, [[1, 'many'], [2, [[4, [[1, [[1, typeOf({ name: '', type: 'f32', dims: ['n'] })]]]]]]]]], // biome-ignore format: one message
        [12, valueInfo({ name: 'one', type: 'f32', dims: ['n'] })],
      ],
    ],
  ])
