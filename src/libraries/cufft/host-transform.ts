/**
 * Fourier transforms in JavaScript, for the simulator: in f64, of any size, not divided by the number of elements, as cuFFT's. A transform of
 * several dimensions is one along each, the last first for real input and last for real output.
 */
import { type FftShape, FORMS } from './fft-shape.js'

/** Complex numbers, in two arrays. */
interface Complex {
  readonly re: Float64Array
  readonly im: Float64Array
}

const complex = (length: number): Complex => ({ re: new Float64Array(length), im: new Float64Array(length) })

/**
 * Transforms the bytes of the input into those of the output, which may be the same. `sign` is that of the exponent. The input of a
 * transform to real numbers is overwritten with NaN, since cuFFT may overwrite it. It rests behind each line.
 */
export function* transform(
  shape: FftShape,
  sign: 1 | -1,
  input: Uint8Array,
  output: Uint8Array,
): Generator<undefined, void> {
  const { type, sizes, batch } = shape
  const { bytes, isReal } = FORMS[type]
  const last = sizes.at(-1) ?? 1
  const outer = sizes.slice(0, -1)
  const half = isReal ? Math.floor(last / 2) + 1 : last
  const lines = outer.reduce((product, size) => product * size, 1)
  const toReal = isReal && sign === 1
  const from = numbersOf(input, bytes)
  const to = bytes === 4 ? new Float32Array(output.byteLength / 4) : new Float64Array(output.byteLength / 8)
  const data = complex(lines * half)
  const line = complex(last)
  for (let index = 0; index < batch; index += 1) {
    if (isReal && !toReal) {
      for (let row = 0; row < lines; row += 1) {
        line.re.set(from.subarray((index * lines + row) * last, (index * lines + row + 1) * last))
        line.im.fill(0)
        transformLine(line, sign)
        copyInto(data, row * half, line, half)
        yield
      }
    } else {
      const begin = 2 * index * lines * half
      for (let at = 0; at < lines * half; at += 1) {
        data.re[at] = from[begin + 2 * at] ?? 0
        data.im[at] = from[begin + 2 * at + 1] ?? 0
      }
      if (!isReal) yield* transformAxis(data, 1, last, sign)
    }
    let stride = half
    for (const size of outer.toReversed()) {
      yield* transformAxis(data, stride, size, sign)
      stride *= size
    }
    if (toReal) {
      for (let row = 0; row < lines; row += 1) {
        hermitian(line, data, row * half)
        transformLine(line, sign)
        to.set(line.re, (index * lines + row) * last)
        yield
      }
    } else {
      const begin = 2 * index * lines * half
      for (let at = 0; at < lines * half; at += 1) {
        to[begin + 2 * at] = data.re[at] ?? 0
        to[begin + 2 * at + 1] = data.im[at] ?? 0
      }
    }
  }
  if (toReal) input.fill(0xff)
  output.set(new Uint8Array(to.buffer))
}

/** A copy of the numbers, since their bytes may begin anywhere. */
function numbersOf(bytes: Uint8Array, width: 4 | 8): Float32Array | Float64Array {
  const { buffer } = bytes.slice()
  return width === 4 ? new Float32Array(buffer) : new Float64Array(buffer)
}

function copyInto(to: Complex, begin: number, from: Complex, length: number): void {
  to.re.set(from.re.subarray(0, length), begin)
  to.im.set(from.im.subarray(0, length), begin)
}

/** Writes a whole line of which only the first half is stored, as the transform of real numbers: the rest is its conjugate. */
function hermitian(line: Complex, data: Complex, begin: number): void {
  const length = line.re.length
  const half = Math.floor(length / 2)
  for (let k = 0; k <= half; k += 1) {
    const [re, im] = [data.re[begin + k] ?? 0, data.im[begin + k] ?? 0]
    line.re[(length - k) % length] = re
    line.im[(length - k) % length] = -im
    line.re[k] = re
    // What is its own conjugate is real, whatever is stored.
    line.im[k] = (2 * k) % length === 0 ? 0 : im
  }
}

/** Transforms elements that are `stride` apart, in place. A function of its own: engines do not optimize a generator while it runs. */
function transformStrided(data: Complex, offset: number, stride: number, line: Complex, sign: 1 | -1): void {
  const size = line.re.length
  for (let k = 0; k < size; k += 1) {
    line.re[k] = data.re[offset + k * stride] ?? 0
    line.im[k] = data.im[offset + k * stride] ?? 0
  }
  transformLine(line, sign)
  for (let k = 0; k < size; k += 1) {
    data.re[offset + k * stride] = line.re[k] ?? 0
    data.im[offset + k * stride] = line.im[k] ?? 0
  }
}

/** Transforms along one dimension, whose elements are `stride` apart. */
function* transformAxis(data: Complex, stride: number, size: number, sign: 1 | -1): Generator<undefined, void> {
  if (size === 1) return
  const line = complex(size)
  const block = stride * size
  for (let begin = 0; begin < data.re.length; begin += block) {
    for (let offset = begin; offset < begin + stride; offset += 1) {
      transformStrided(data, offset, stride, line, sign)
      yield
    }
  }
}

/** Transforms one line in place. */
function transformLine(line: Complex, sign: 1 | -1): void {
  const { length } = line.re
  if ((length & (length - 1)) === 0) radix2(line, sign)
  else bluestein(line, sign)
}

/** The transform of a power of two (Cooley and Tukey). */
function radix2({ re, im }: Complex, sign: 1 | -1): void {
  const { length } = re
  for (let i = 1, j = 0; i < length; i += 1) {
    let bit = length >> 1
    for (; (j & bit) !== 0; bit >>= 1) j ^= bit
    j ^= bit
    if (i >= j) continue
    swap(re, i, j)
    swap(im, i, j)
  }
  for (let width = 2; width <= length; width *= 2) {
    const half = width / 2
    for (let k = 0; k < half; k += 1) {
      const angle = (sign * 2 * Math.PI * k) / width
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)]
      for (let at = k; at < length; at += width) {
        const other = at + half
        const [x, y] = [re[other] ?? 0, im[other] ?? 0]
        const [tx, ty] = [x * cos - y * sin, x * sin + y * cos]
        const [ux, uy] = [re[at] ?? 0, im[at] ?? 0]
        re[at] = ux + tx
        im[at] = uy + ty
        re[other] = ux - tx
        im[other] = uy - ty
      }
    }
  }
}

function swap(array: Float64Array, i: number, j: number): void {
  const value = array[i] ?? 0
  array[i] = array[j] ?? 0
  array[j] = value
}

/** The transform of any size as a convolution, of which the size is a power of two (Bluestein). */
function bluestein({ re, im }: Complex, sign: 1 | -1): void {
  const { length } = re
  let size = 1
  while (size < 2 * length - 1) size *= 2
  const chirp = complex(length)
  // k squared, modulo 2 · length, so that the angle stays small.
  for (let k = 0, square = 0; k < length; k += 1) {
    const angle = (sign * Math.PI * square) / length
    chirp.re[k] = Math.cos(angle)
    chirp.im[k] = Math.sin(angle)
    square = (square + 2 * k + 1) % (2 * length)
  }
  const [a, b] = [complex(size), complex(size)]
  for (let k = 0; k < length; k += 1) {
    const [x, y, c, s] = [re[k] ?? 0, im[k] ?? 0, chirp.re[k] ?? 0, chirp.im[k] ?? 0]
    a.re[k] = x * c - y * s
    a.im[k] = x * s + y * c
    for (const at of [k, (size - k) % size]) {
      b.re[at] = c
      b.im[at] = -s
    }
  }
  radix2(a, -1)
  radix2(b, -1)
  for (let k = 0; k < size; k += 1) {
    const [x, y, c, s] = [a.re[k] ?? 0, a.im[k] ?? 0, b.re[k] ?? 0, b.im[k] ?? 0]
    a.re[k] = x * c - y * s
    a.im[k] = x * s + y * c
  }
  radix2(a, 1)
  for (let k = 0; k < length; k += 1) {
    const [x, y, c, s] = [(a.re[k] ?? 0) / size, (a.im[k] ?? 0) / size, chirp.re[k] ?? 0, chirp.im[k] ?? 0]
    re[k] = x * c - y * s
    im[k] = x * s + y * c
  }
}
