/**
 * Philox 4x32-10 in JavaScript, for the simulator (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011), with the numbers in
 * the order of cuRAND's generator: there are 65536 sequences, each gives four numbers, then each the next four.
 */
const MULTIPLIERS = [0xd2511f53, 0xcd9e8d57] as const
const WEYL = [0x9e3779b9, 0xbb67ae85] as const
const ROUNDS = 10
/** The words of a block, which is what one counter gives; and the numbers that a sequence gives at a time. */
const FOUR = 4
const SEQUENCES = 65_536
const TWO_32 = 2 ** 32
const f32 = Math.fround
/** A turn divided by 2 ** 32, in f32. */
const TURN_32 = f32(2 * Math.PI) * 2 ** -32

/** The upper 32 bits of a product of two numbers of 32 bits. */
function upper(a: number, b: number): number {
  const [a0, a1, b0, b1] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16]
  const middle = a1 * b0 + ((a0 * b0) >>> 16)
  return a1 * b1 + Math.floor(middle / 65_536) + (((middle % 65_536) + a0 * b1) >>> 16)
}

/** Writes the four words of a counter, of a sequence of the seed. */
function writeBlock(seed: number, sequence: number, counter: number, words: Uint32Array): void {
  let [k0, k1] = [seed % TWO_32, Math.floor(seed / TWO_32)]
  let [x, y, z, w] = [counter % TWO_32, Math.floor(counter / TWO_32), sequence, 0]
  for (let round = 0; round < ROUNDS; round += 1) {
    const [high, low] = [upper(MULTIPLIERS[0], x), Math.imul(MULTIPLIERS[0], x)]
    const [otherHigh, otherLow] = [upper(MULTIPLIERS[1], z), Math.imul(MULTIPLIERS[1], z)]
    x = (otherHigh ^ y ^ k0) >>> 0
    y = otherLow >>> 0
    z = (high ^ w ^ k1) >>> 0
    w = low >>> 0
    k0 = (k0 + WEYL[0]) >>> 0
    k1 = (k1 + WEYL[1]) >>> 0
  }
  words.set([x, y, z, w])
}

/** The distributions, and the type of their numbers. */
export type Distribution =
  | { readonly of: 'bits'; readonly type: 'u32' }
  | { readonly of: 'uniform'; readonly type: 'f32' | 'f64' }
  | {
      readonly of: 'normal' | 'logNormal'
      readonly type: 'f32' | 'f64'
      readonly mean: number
      readonly stddev: number
    }

/** A generator: what is on the device on a GPU. */
export class Philox {
  #position: number
  /** How much farther the counter of each sequence is for numbers of f64, of which four take two blocks. */
  #more: Uint32Array | undefined
  readonly #words = new Uint32Array(FOUR)

  constructor(
    private readonly seed: number,
    offset: number,
  ) {
    this.#position = offset
  }

  /** Fills the bytes with the next numbers. */
  generate(distribution: Distribution, bytes: Uint8Array): void {
    const { type } = distribution
    const isWide = type === 'f64'
    const count = bytes.byteLength / (isWide ? 8 : 4)
    const numbers = isWide ? new Float64Array(count) : type === 'f32' ? new Float32Array(count) : new Uint32Array(count)
    if (isWide) this.#more ??= new Uint32Array(SEQUENCES)
    let block = { sequence: -1, counter: -1 }
    for (let index = 0; index < count; index += 1) {
      const group = Math.floor(this.#position / FOUR)
      const lane = this.#position % FOUR
      const sequence = group % SEQUENCES
      const begin = Math.floor(group / SEQUENCES) + (this.#more?.[sequence] ?? 0)
      const counter = isWide ? begin + (lane >> 1) : begin
      if (block.sequence !== sequence || block.counter !== counter) {
        writeBlock(this.seed, sequence, counter, this.#words)
        block = { sequence, counter }
      }
      numbers[index] = this.#numberOf(distribution, lane)
      this.#position += 1
      // What ends a group of four decides where the next of the sequence begins.
      if (isWide && lane === FOUR - 1 && this.#more !== undefined)
        this.#more[sequence] = (this.#more[sequence] ?? 0) + 1
    }
    bytes.set(new Uint8Array(numbers.buffer))
  }

  /** The number of a place among four, given the words that it is made of. */
  #numberOf(distribution: Distribution, lane: number): number {
    const { of, type } = distribution
    const [a = 0, b = 0, c = 0, d = 0] = this.#words
    if (of === 'bits') return this.#words[lane] ?? 0
    const second = lane % 2
    if (of === 'uniform') {
      if (type === 'f32') return uniform32(this.#words[lane] ?? 0)
      return second === 0 ? uniform64(a, b) : uniform64(c, d)
    }
    // Two numbers are the sine and the cosine of one angle, whether or not both are wanted.
    const normal =
      type === 'f64' ? normal64([a, b, c, d], second) : lane < 2 ? normal32(a, b, second) : normal32(c, d, second)
    const { mean, stddev } = distribution
    const value = type === 'f64' ? mean + stddev * normal : f32(f32(mean) + f32(f32(stddev) * normal))
    return of === 'normal' ? value : Math.exp(value)
  }
}

/** A number greater than 0 and at most 1, from a random word. */
const uniform32 = (word: number): number => f32(f32(word) * 2 ** -32 + 2 ** -33)

const uniform64 = (x: number, y: number): number => bits53(x, y) * 2 ** -53 + 2 ** -54

/** x, and y from bit 21 on, one over the other. */
const bits53 = (x: number, y: number): number => (y >>> 11) * TWO_32 + ((x ^ (y << 21)) >>> 0)

/**
 * Computes one of the two normal numbers that two uniform ones give (Box and Muller), rounded to f32 where cuRAND rounds.
 */
function normal32(x: number, y: number, which: number): number {
  const radius = f32(Math.sqrt(-2 * f32(Math.log(uniform32(x)))))
  const angle = f32(f32(f32(y) * TURN_32) + TURN_32 / 2)
  return f32(radius * f32(which === 0 ? Math.sin(angle) : Math.cos(angle)))
}

function normal64([a, b, c, d]: readonly [number, number, number, number], which: number): number {
  const radius = Math.sqrt(-2 * Math.log(uniform64(a, b)))
  const angle = 2 * Math.PI * uniform64(c, d)
  return radius * (which === 0 ? Math.sin(angle) : Math.cos(angle))
}
