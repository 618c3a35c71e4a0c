import type { KernelCode } from './kernel-code.js'
import { ROUTES } from './layout.js'
import type { Stop } from './program.js'
import type { Resident } from './resident.js'

/** The place of an operand of a shuffle: the index of its word within the frame, or -1 if it is the constant. */
interface CellPlace {
  readonly at: number
  readonly constant: number
}

interface Shuffle {
  readonly value: CellPlace
  readonly distance: CellPlace
  readonly control: CellPlace
  readonly mask: CellPlace
  readonly mode: number
  readonly result: number
  readonly inside: number
  /** The lane from which each lane reads, then whether each of these lies within its segment; undefined if that may differ from warp to warp. */
  readonly routes: Int32Array | undefined
}

export class Shuffles {
  readonly #shuffles: (Shuffle | undefined)[] = []

  constructor(private readonly code: KernelCode) {}

  readonly #values = new Int32Array(32)
  /** The lane from which each lane reads; `#insides` says whether that lane lies within the segment of the reading one. */
  readonly #sources = new Int32Array(32)
  readonly #insides = new Int32Array(32)

  #route(mode: number, lane: number, b: number, c: number): void {
    const distance = b & 31
    const segment = (c >>> 8) & 31
    const last = (lane & segment) | (c & 31 & ~segment)
    const source =
      mode === 0
        ? lane - distance
        : mode === 1
          ? lane + distance
          : mode === 2
            ? lane ^ distance
            : (lane & segment) | (distance & ~segment)
    const inside = mode === 0 ? source >= last : source <= last
    this.#sources[lane] = inside ? source : lane
    this.#insides[lane] = inside ? 1 : 0
  }

  /** Carries out a shuffle of whole warps without gathering their values first, since no other meeting is as frequent. */
  run(resident: Resident, stop: Stop, maskName: string | undefined, from: number, to: number): boolean {
    if (from % 32 !== 0 || to % 32 !== 0) return false
    const { words } = this.code.memory
    const stride = this.code.program.threadBytes >> 2
    const base = resident.frames >> 2
    const shuffle = this.#shuffleOf(stop, maskName)
    const { value, mask, result, inside, routes } = shuffle
    if (value.at < 0) return false
    if (mask.at >= 0) {
      for (let thread = from; thread < to; thread++) if (words[base + thread * stride + mask.at] !== -1) return false
    } else if (mask.constant !== -1) return false
    const start = resident.frames + from * this.code.program.threadBytes
    if (routes !== undefined) {
      // If the lane to read from is the same for all warps, compiled code moves the values.
      words.set(routes, ROUTES >> 2)
      this.code.shuffle(start, (to - from) >> 5, 4 * value.at, result, inside)
    } else this.#shuffleByLane(start >> 2, (to - from) >> 5, shuffle)
    return true
  }

  /** The places of a shuffle's operands and results, computed once for each stop. */
  #shuffleOf(stop: Stop, maskName: string | undefined): Shuffle {
    const known = this.#shuffles[stop.id]
    if (known !== undefined) return known
    const cellOf = (name: string): CellPlace => {
      const cell = stop.cells?.sources.find((each) => each.name === name)
      const constant = Number(BigInt.asIntN(32, cell?.constant ?? 0n))
      return { at: cell?.offset === undefined ? -1 : cell.offset >> 2, constant }
    }
    const [value, distance, control] = [cellOf('a'), cellOf('b'), cellOf('c')]
    const mask = maskName === undefined ? { at: -1, constant: -1 } : cellOf(maskName)
    const mode = ['up', 'down', 'bfly', 'idx'].indexOf(stop.at?.modifiers['M'] ?? '')
    const result = stop.cells?.results[0]?.offset ?? -1
    const inside = stop.cells?.results[1]?.offset ?? -1
    let routes: Int32Array | undefined
    if (distance.at < 0 && control.at < 0) {
      for (let lane = 0; lane < 32; lane++) this.#route(mode, lane, distance.constant, control.constant)
      routes = Int32Array.from([...this.#sources, ...this.#insides])
    }
    const shuffle = { value, distance, control, mask, mode, result, inside, routes }
    this.#shuffles[stop.id] = shuffle
    return shuffle
  }

  #shuffleByLane(start: number, warps: number, shuffle: Shuffle): void {
    const { value, distance, control, mode } = shuffle
    const [result, inside] = [shuffle.result >> 2, shuffle.inside >> 2]
    const { words } = this.code.memory
    const stride = this.code.program.threadBytes >> 2
    const [values, sources, insides] = [this.#values, this.#sources, this.#insides]
    for (let warp = 0; warp < warps; warp++) {
      const first = start + 32 * warp * stride
      for (let lane = 0, at = first + value.at; lane < 32; lane++, at += stride) values[lane] = words[at] ?? 0
      for (let lane = 0, frame = first; lane < 32; lane++, frame += stride) {
        const b = distance.at < 0 ? distance.constant : (words[frame + distance.at] ?? 0)
        const c = control.at < 0 ? control.constant : (words[frame + control.at] ?? 0)
        this.#route(mode, lane, b, c)
        if (result >= 0) words[frame + result] = values[sources[lane] ?? 0] ?? 0
        if (inside >= 0) words[frame + inside] = insides[lane] ?? 0
      }
    }
  }
}
