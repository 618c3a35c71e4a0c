/**
 * Parts of compiled kernels that machines share. WebAssembly has locations in the machine's memory built in, where constants are fastest: a part is
 * taken for another machine if that has the same ones, as simulations that do the same have.
 */
import type { Decoded } from './decoding.js'
import type { KernelProgram } from './program.js'
import type { AccessSite } from './value-writer.js'
import type { WasmModule } from './web-assembly.js'

/** What a machine is asked while code is written for it. */
export interface Places {
  /** A variable's address. */
  addressOf(name: string, decoded: Decoded): bigint
  /** A variable's location in WebAssembly's memory; undefined if that is full. */
  residentAt(name: string, decoded: Decoded): number | undefined
  /** The number of an instruction that accesses memory, and the locations of its windows. */
  site(decoded: Decoded): AccessSite
  /** Locations of marks. */
  pendingMarks(bits: number): { readonly waiting: number; readonly latest: number }
  /** The location of the table of touched pages. */
  touchedTable(): number
  /** The location of the list of marked ranges. */
  rangeList(): number
  /** Notes that threads run as lanes in the code. */
  tellLanes(): void
}

/** A question to a machine with the answer that is built in. Answers have an effect, and so are asked for in the same order. */
interface Question {
  ask(of: Places): string
  readonly answer: string
}

interface Part {
  readonly module: WasmModule
  readonly questions: readonly Question[]
}

/** The places of a machine, which notes the questions. */
export class NotedPlaces implements Places {
  readonly questions: Question[] = []

  constructor(private readonly places: Places) {}

  addressOf(name: string, decoded: Decoded): bigint {
    const address = this.places.addressOf(name, decoded)
    this.#note((of) => String(of.addressOf(name, decoded)), String(address))
    return address
  }

  residentAt(name: string, decoded: Decoded): number | undefined {
    const base = this.places.residentAt(name, decoded)
    this.#note((of) => String(of.residentAt(name, decoded)), String(base))
    return base
  }

  site(decoded: Decoded): ReturnType<Places['site']> {
    const site = this.places.site(decoded)
    this.#note((of) => String(of.site(decoded).window), String(site.window))
    return site
  }

  pendingMarks(bits: number): ReturnType<Places['pendingMarks']> {
    const marks = this.places.pendingMarks(bits)
    const inWords = ({ waiting, latest }: typeof marks): string => `${waiting},${latest}`
    this.#note((of) => inWords(of.pendingMarks(bits)), inWords(marks))
    return marks
  }

  touchedTable(): number {
    const table = this.places.touchedTable()
    this.#note((of) => String(of.touchedTable()), String(table))
    return table
  }

  rangeList(): number {
    const list = this.places.rangeList()
    this.#note((of) => String(of.rangeList()), String(list))
    return list
  }

  tellLanes(): void {
    this.places.tellLanes()
    this.#note((of) => String(of.tellLanes()), String(undefined))
  }

  #note(ask: Question['ask'], answer: string): void {
    this.questions.push({ ask, answer })
  }
}

/** The most parts of one kernel that are kept. */
const MOST_PARTS = 32

/** The parts of kernels that were compiled last, as long as their programs are there. */
const compiled = new WeakMap<KernelProgram, Map<string, Part>>()

/** The number of parts that this thread has compiled so far. */
export const compiling = { parts: 0 }

/** A part that was compiled for a machine of which all places that are built in are the same; undefined if there is none. */
export function knownPart(program: KernelProgram, key: string, places: Places): WasmModule | undefined {
  const part = compiled.get(program)?.get(key)
  return part?.questions.every(({ ask, answer }) => ask(places) === answer) === true ? part.module : undefined
}

/** Keeps a part that was compiled now, in place of the oldest one if there are many. */
export function keepPart(program: KernelProgram, key: string, module: WasmModule, { questions }: NotedPlaces): void {
  compiling.parts++
  const parts = compiled.get(program) ?? new Map<string, Part>()
  compiled.set(program, parts)
  parts.delete(key)
  parts.set(key, { module, questions })
  const [oldest] = parts.keys()
  if (parts.size > MOST_PARTS && oldest !== undefined) parts.delete(oldest)
}
