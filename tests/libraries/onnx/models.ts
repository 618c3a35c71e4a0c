/** Models of three common shapes, with weights and inputs that a small generator makes: the same on each machine. */
import type { Model, ModelNode, ModelTensor, Weight } from './onnx-model.js'

/** Numbers between -0.5 and 0.5, by a linear congruential generator. */
class Numbers {
  #state = 12345

  take(count: number): Float32Array {
    return Float32Array.from({ length: count }, () => {
      this.#state = (Math.imul(this.#state, 1103515245) + 12345) >>> 0
      return this.#state / 2 ** 32 - 0.5
    })
  }
}

export interface Example {
  readonly model: Model
  /** The shape and the elements of its input. */
  readonly shape: readonly number[]
  readonly input: Float32Array
  readonly outputShape: readonly number[]
}

const product = (dims: readonly number[]): number => dims.reduce((all, each) => all * each, 1)

function example(
  name: string,
  input: ModelTensor,
  output: ModelTensor,
  shapes: { readonly input: readonly number[]; readonly output: readonly number[] },
  define: (weight: (name: string, ...dims: number[]) => string, add: (node: ModelNode) => void) => readonly Weight[],
): Example {
  const numbers = new Numbers()
  const weights: Weight[] = []
  const nodes: ModelNode[] = []
  const weight = (weightName: string, ...dims: number[]): string => {
    weights.push({ name: weightName, dims, data: numbers.take(product(dims)) })
    return weightName
  }
  const others = define(weight, (node) => void nodes.push(node))
  const model = { name, inputs: [input], outputs: [output], nodes, weights: [...weights, ...others] }
  return { model, shape: shapes.input, input: numbers.take(product(shapes.input)), outputShape: shapes.output }
}

const f32 = (name: string, ...dims: (number | string)[]): ModelTensor => ({ name, type: 'f32', dims })

/** Two layers and a softmax, for any number of rows. */
export const perceptron = example(
  'perceptron',
  f32('x', 'batch', 16),
  f32('y', 'batch', 10),
  { input: [4, 16], output: [4, 10] },
  (weight, add) => {
    add({ op: 'Gemm', inputs: ['x', weight('w1', 16, 32), weight('b1', 32)], outputs: ['h'] })
    add({ op: 'Relu', inputs: ['h'], outputs: ['a'] })
    add({ op: 'Gemm', inputs: ['a', weight('w2', 32, 10), weight('b2', 10)], outputs: ['z'] })
    add({ op: 'Softmax', inputs: ['z'], outputs: ['y'], attributes: { axis: -1 } })
    return []
  },
)

/** Two convolutions with pooling, and a layer behind them. */
export const convolutions = example(
  'convolutions',
  f32('image', 2, 3, 8, 8),
  f32('classes', 2, 10),
  { input: [2, 3, 8, 8], output: [2, 10] },
  (weight, add) => {
    const same = { kernel_shape: [3, 3], pads: [1, 1, 1, 1] }
    const half = { kernel_shape: [2, 2], strides: [2, 2] }
    add({ op: 'Conv', inputs: ['image', weight('k1', 4, 3, 3, 3), weight('c1', 4)], outputs: ['t1'], attributes: same })
    add({ op: 'Relu', inputs: ['t1'], outputs: ['t2'] })
    add({ op: 'MaxPool', inputs: ['t2'], outputs: ['t3'], attributes: half })
    add({ op: 'Conv', inputs: ['t3', weight('k2', 8, 4, 3, 3), weight('c2', 8)], outputs: ['t4'], attributes: same })
    add({ op: 'Relu', inputs: ['t4'], outputs: ['t5'] })
    add({ op: 'GlobalAveragePool', inputs: ['t5'], outputs: ['t6'] })
    add({ op: 'Flatten', inputs: ['t6'], outputs: ['t7'], attributes: { axis: 1 } })
    add({ op: 'Gemm', inputs: ['t7', weight('w', 8, 10), weight('b', 10)], outputs: ['classes'] })
    return []
  },
)

const WIDTH = 16
const HEADS = 2

/** A block of a transformer: attention with two heads, then two layers, each behind a normalization, for any length. */
const transformer = example(
  'transformer',
  f32('tokens', 1, 'length', WIDTH),
  f32('result', 1, 'length', WIDTH),
  { input: [1, 5, WIDTH], output: [1, 5, WIDTH] },
  (weight, add) => {
    const norm = (input: string, output: string, letter: string): void =>
      add({
        op: 'LayerNormalization',
        inputs: [input, weight(`scale${letter}`, WIDTH), weight(`bias${letter}`, WIDTH)],
        outputs: [output],
        attributes: { axis: -1, epsilon: { float: 1e-5 } },
      })
    const heads = (letter: string, perm: readonly number[]): string => {
      add({ op: 'MatMul', inputs: ['n1', weight(`w${letter}`, WIDTH, WIDTH)], outputs: [`${letter}1`] })
      add({ op: 'Reshape', inputs: [`${letter}1`, 'split'], outputs: [`${letter}2`] })
      add({ op: 'Transpose', inputs: [`${letter}2`], outputs: [letter], attributes: { perm } })
      return letter
    }
    norm('tokens', 'n1', 'A')
    add({ op: 'MatMul', inputs: [heads('q', [0, 2, 1, 3]), heads('k', [0, 2, 3, 1])], outputs: ['s1'] })
    add({ op: 'Softmax', inputs: ['s1'], outputs: ['s2'], attributes: { axis: -1 } })
    add({ op: 'MatMul', inputs: ['s2', heads('v', [0, 2, 1, 3])], outputs: ['s3'] })
    add({ op: 'Transpose', inputs: ['s3'], outputs: ['s4'], attributes: { perm: [0, 2, 1, 3] } })
    add({ op: 'Reshape', inputs: ['s4', 'joined'], outputs: ['s5'] })
    add({ op: 'MatMul', inputs: ['s5', weight('wo', WIDTH, WIDTH)], outputs: ['s6'] })
    add({ op: 'Add', inputs: ['tokens', 's6'], outputs: ['r1'] })
    norm('r1', 'n2', 'B')
    add({ op: 'MatMul', inputs: ['n2', weight('w1', WIDTH, 4 * WIDTH)], outputs: ['f1'] })
    add({ op: 'Tanh', inputs: ['f1'], outputs: ['f2'] })
    add({ op: 'MatMul', inputs: ['f2', weight('w2', 4 * WIDTH, WIDTH)], outputs: ['f3'] })
    add({ op: 'Add', inputs: ['r1', 'f3'], outputs: ['result'] })
    return [
      { name: 'split', dims: [4], data: BigInt64Array.of(1n, -1n, BigInt(HEADS), BigInt(WIDTH / HEADS)) },
      { name: 'joined', dims: [3], data: BigInt64Array.of(1n, -1n, BigInt(WIDTH)) },
    ]
  },
)

export const EXAMPLES: readonly Example[] = [perceptron, convolutions, transformer]

/** Copies bytes. */
export const identity: Model = {
  name: 'identity',
  inputs: [{ name: 'from', type: 'u8', dims: ['n'] }],
  outputs: [{ name: 'to', type: 'u8', dims: ['n'] }],
  nodes: [{ op: 'Identity', inputs: ['from'], outputs: ['to'] }],
}
