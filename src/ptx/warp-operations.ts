/** Operations of the threads of a warp together: shuffles, votes, matches, reductions; and what the operations on matrices share. */
import type { Decoded } from './decoding.js'
import type { Cell, Stop } from './program.js'
import { bitsOf } from './syntax.js'

/** The lanes of one warp that meet at one operation, with the values that they brought. */
export class Gathering {
  /** The frame of each lane's thread, as an index in words; -1 if the lane does not take part. */
  readonly frames = new Int32Array(32).fill(-1)
  /** The stop of each lane's thread. Lanes may stop at different places for the same operation. */
  readonly stops: (Stop | undefined)[] = new Array<Stop | undefined>(32).fill(undefined)
  /** The lanes that take part, in ascending order. */
  lanes: number[] = []

  constructor(public words: Int32Array) {}

  clear(): void {
    for (const lane of this.lanes) {
      this.frames[lane] = -1
      this.stops[lane] = undefined
    }
    this.lanes.length = 0
  }

  add(lane: number, frame: number, stop: Stop): void {
    this.frames[lane] = frame >> 2
    this.stops[lane] = stop
    this.lanes.push(lane)
  }

  get decoded(): Decoded {
    const at = this.stops[this.lanes[0] ?? 0]?.at
    if (at === undefined) throw new Error('Nothing meets here')
    return at
  }

  get operation(): string {
    const { meaning } = this.decoded.form
    return meaning.kind === 'meeting' ? meaning.operation : ''
  }

  get mask(): number {
    let mask = 0
    for (const lane of this.lanes) mask |= 1 << lane
    return mask
  }

  #cell(lane: number, name: string, index: number): Cell | undefined {
    const cells = this.stops[lane]?.cells?.sources
    if (cells === undefined) return undefined
    let left = index
    for (const cell of cells) if (cell.name === name && left-- === 0) return cell
    return undefined
  }

  has(lane: number, name: string): boolean {
    return this.#cell(lane, name, 0) !== undefined
  }

  /** One word of a value that a lane brought: the lower or upper half of the register with this index in the operand `name`. */
  source(lane: number, name: string, index = 0, half: 0 | 1 = 0): number {
    const cell = this.#cell(lane, name, index)
    if (cell === undefined) return 0
    if (cell.offset === undefined) {
      const value = cell.constant ?? 0n
      return Number(BigInt.asIntN(32, half === 0 ? value : value >> 32n))
    }
    return this.words[(this.frames[lane] ?? 0) + (cell.offset >> 2) + half] ?? 0
  }

  /** A predicate that a lane brought; a negation in the text has been applied already. */
  predicate(lane: number, name: string): boolean {
    return (this.source(lane, name) & 1) !== 0
  }

  /** A 64-bit address that a lane brought. */
  address(lane: number, name: string): number {
    return (this.source(lane, name, 0, 0) >>> 0) + this.source(lane, name, 0, 1) * 2 ** 32
  }

  /** The number of registers that an operand has. */
  countOf(name: string): number {
    const cells = this.stops[this.lanes[0] ?? 0]?.cells
    const all = [...(cells?.sources ?? []), ...(cells?.results ?? [])]
    return all.filter((cell) => cell.name === name).length
  }

  /** Stores a word of a result: the one of the register with this index in d (0) or, of d|p, in p (1). */
  result(lane: number, index: number, value: number, half: 0 | 1 = 0): void {
    const cell = this.stops[lane]?.cells?.results[index]
    if (cell?.offset === undefined) return
    this.words[(this.frames[lane] ?? 0) + (cell.offset >> 2) + half] = value
  }
}

/** Receives what the checks of an operation find. */
export type Report = (kind: 'shuffle-from-absent-lane', lane: number, other: number) => void

type WarpOperation = (gathering: Gathering, report: Report) => void

/** The name of the operand with an operation's mask of lanes; undefined for an operation that has none. */
export function maskOperand({ form }: Decoded): string | undefined {
  switch (form.meaning.kind === 'meeting' ? form.meaning.operation : '') {
    case 'shfl':
    case 'vote':
      return form.operands.some(({ name }) => name === 'e') ? 'e' : undefined
    case 'match':
    case 'redux':
      return 'e'
    case 'warp.sync':
    case 'elect':
      return 'a'
    default:
      return undefined
  }
}

export const WARP_OPERATIONS: Readonly<Record<string, WarpOperation>> = {
  'warp.sync': () => {},
  step: () => {},
  shfl: shuffle,
  vote,
  match,
  redux,
  activemask: (gathering) => {
    const { mask } = gathering
    for (const lane of gathering.lanes) gathering.result(lane, 0, mask)
  },
  elect: (gathering) => {
    const leader = gathering.lanes[0] ?? 0
    for (const lane of gathering.lanes) {
      gathering.result(lane, 0, leader)
      gathering.result(lane, 1, lane === leader ? 1 : 0)
    }
  },
}

const shuffled = new Int32Array(32)

function shuffle(gathering: Gathering, report: Report): void {
  const { lanes, decoded } = gathering
  const mode = decoded.modifiers['M']
  for (const lane of lanes) shuffled[lane] = gathering.source(lane, 'a')
  for (const lane of lanes) {
    const distance = gathering.source(lane, 'b') & 31
    const control = gathering.source(lane, 'c')
    const [clamp, segment] = [control & 31, (control >>> 8) & 31]
    const last = (lane & segment) | (clamp & ~segment)
    let from = lane
    let inside = true
    if (mode === 'up') {
      from = lane - distance
      inside = from >= last
    } else {
      if (mode === 'down') from = lane + distance
      else if (mode === 'bfly') from = lane ^ distance
      else from = (lane & segment) | (distance & ~segment)
      inside = from <= last
    }
    if (!inside) from = lane
    const isAbsent = gathering.frames[from] === -1
    if (isAbsent) report('shuffle-from-absent-lane', lane, from)
    // A GPU gives 0 for a lane that is not there: beyond the end of the block, ended, or waiting elsewhere.
    gathering.result(lane, 0, isAbsent ? 0 : (shuffled[from] ?? 0))
    gathering.result(lane, 1, inside ? 1 : 0)
  }
}

function vote(gathering: Gathering): void {
  const { lanes } = gathering
  let ballot = 0
  for (const lane of lanes) if (gathering.predicate(lane, 'a')) ballot |= 1 << lane
  const { mask, decoded } = gathering
  const results: Readonly<Record<string, number>> = {
    ballot,
    all: ballot === mask ? 1 : 0,
    any: ballot !== 0 ? 1 : 0,
    uni: ballot === mask || ballot === 0 ? 1 : 0,
  }
  const value = results[decoded.modifiers['op'] ?? 'ballot'] ?? 0
  for (const lane of lanes) gathering.result(lane, 0, value)
}

function match(gathering: Gathering): void {
  const { lanes, decoded, mask } = gathering
  const wide = bitsOf(decoded.modifiers['T'] ?? 'b32') === 64
  const key = (lane: number): string =>
    `${gathering.source(lane, 'a')}${wide ? `,${gathering.source(lane, 'a', 0, 1)}` : ''}`
  const groups = new Map<string, number>()
  for (const lane of lanes) groups.set(key(lane), (groups.get(key(lane)) ?? 0) | (1 << lane))
  for (const lane of lanes) {
    if (decoded.modifiers['op'] === 'any') gathering.result(lane, 0, groups.get(key(lane)) ?? 0)
    else {
      gathering.result(lane, 0, groups.size === 1 ? mask : 0)
      gathering.result(lane, 1, groups.size === 1 ? 1 : 0)
    }
  }
}

const scratch = new DataView(new ArrayBuffer(8))

export function floatOfBits(bits: number): number {
  scratch.setInt32(0, bits)
  return scratch.getFloat32(0)
}

/** The bits of an f32; a NaN has those of the GPU. */
export function bitsOfFloat32(value: number): number {
  if (Number.isNaN(value)) return 0x7fffffff
  scratch.setFloat32(0, value)
  return scratch.getInt32(0)
}

function redux(gathering: Gathering): void {
  const { lanes, decoded } = gathering
  const { op = 'add', T: type = 'b32' } = decoded.modifiers
  const values = lanes.map((lane) => gathering.source(lane, 'a'))
  let result: number
  if (type === 'f32') {
    const floats = values.map((bits) => {
      const value = floatOfBits(bits)
      return decoded.modifiers['abs'] === undefined ? value : Math.abs(value)
    })
    const numbers = floats.filter((value) => !Number.isNaN(value))
    const hasNaN = numbers.length < floats.length
    if ((hasNaN && decoded.modifiers['NaN'] !== undefined) || numbers.length === 0) result = 0x7fffffff
    else result = bitsOfFloat32(numbers.reduce((a, b) => (op === 'min' ? Math.min(a, b) : Math.max(a, b))))
  } else {
    const number = (bits: number): number => (type === 'u32' ? bits >>> 0 : bits)
    const combine: Readonly<Record<string, (a: number, b: number) => number>> = {
      add: (a, b) => a + b,
      min: (a, b) => Math.min(number(a), number(b)),
      max: (a, b) => Math.max(number(a), number(b)),
      and: (a, b) => a & b,
      or: (a, b) => a | b,
      xor: (a, b) => a ^ b,
    }
    const apply = combine[op]
    result = values.reduce((a, b) => (apply?.(a, b) ?? 0) | 0)
  }
  for (const lane of lanes) gathering.result(lane, 0, result)
}
