/**
 * What the warps of a launch do at each line: instructions, active threads, branches, and what their accesses of memory cost. Threads run one after
 * the other and leave traces, which are put together here as a warp runs them: of the lanes that stand at different places those that are behind in
 * the program go first, so that lanes are together again behind branches and loops.
 */
import type { Decoded } from './decoding.js'
import type { KernelCode } from './kernel-code.js'
import { LOCAL_WINDOW, SHARED_WINDOW } from './layout.js'
import type { Resident } from './resident.js'
import type { Segment } from './segments.js'

/** What warps have done at a line of the source, or of the PTX where that names no source. */
export interface LineCounts extends AccessCounts {
  readonly file: string | undefined
  readonly line: number
  /** Instructions of warps, and of their threads. */
  instructions: number
  threads: number
  branches: number
  divergentBranches: number
}

const WARP = 32
/** The bytes of a sector of global memory; the banks of shared memory, and the bytes of a word there. */
const SECTOR = 32
const BANKS = 32
const WORD = 4
/** The events of a block from which on they are put together as far as is possible. */
const MANY_EVENTS = 1 << 16

const [SHARED_BEGIN, LOCAL_BEGIN] = [Number(SHARED_WINDOW), Number(LOCAL_WINDOW)]

/** The trace of a thread: the segments that it has entered, as -1 - number, each followed by its accesses, as two numbers each. */
class Lane {
  readonly number: number
  events: number[] = []
  /** The index of the next event that was not counted. */
  at = 0
  /** The index of the segment behind the next one. */
  end = 0
  hasEnded = false
  /** The places at which the functions stand that are called one within the other; the last is that of the next segment. */
  readonly stack: number[] = []
  isPlaced = false
  last: Segment | undefined

  constructor(number: number) {
    this.number = number
  }

  /** Forgets what was counted. */
  trim(): void {
    this.events = this.events.slice(this.at)
    this.at = 0
  }
}

interface BlockTrace {
  readonly warps: readonly (readonly Lane[])[]
  events: number
}

interface AccessCounts {
  globalRequests: number
  sectors: number
  idealSectors: number
  sharedRequests: number
  wavefronts: number
  bankConflicts: number
}

export class LaunchCounts {
  readonly #traces = new Map<Resident, BlockTrace>()
  #latest: { readonly resident?: Resident; readonly trace?: BlockTrace } = {}
  /** How often warps ran each segment, with how many threads, and how often its branch divided them; indices are numbers of segments. */
  readonly #runs: { warps: number; threads: number; divided: number }[] = []
  /** The accesses at each place in the code; indices are the places' numbers. */
  readonly #accesses: AccessCounts[] = []

  constructor(
    private readonly code: KernelCode,
    private readonly threads: number,
  ) {}

  entered(resident: Resident, segment: number, thread: number): void {
    this.#laneOf(resident, thread, 1).events.push(-1 - segment)
  }

  accessed(resident: Resident, site: number, address: number, bytes: number, thread: number): void {
    this.#laneOf(resident, thread, 2).events.push(BYTES * site + bytes, address)
  }

  #laneOf(resident: Resident, thread: number, events: number): Lane {
    let trace = this.#latest.resident === resident ? this.#latest.trace : this.#traces.get(resident)
    if (trace === undefined) {
      const lanes = Array.from({ length: this.threads }, (_, number) => new Lane(number % WARP))
      const warps = Array.from({ length: Math.ceil(this.threads / WARP) }, (_, warp) =>
        lanes.slice(WARP * warp, WARP * (warp + 1)),
      )
      trace = { warps, events: 0 }
      this.#traces.set(resident, trace)
    }
    if (this.#latest.resident !== resident) this.#latest = { resident, trace }
    trace.events += events
    const lane = trace.warps[thread >> 5]?.[thread & 31]
    if (lane === undefined) throw new Error(`There is no thread ${thread}`)
    return lane
  }

  /** Counts what the threads of a block have done, which are between segments now; all of it if the block has ended. */
  turnEnded(resident: Resident, hasEnded: boolean): void {
    const trace = this.#traces.get(resident)
    if (trace === undefined || (!hasEnded && trace.events < MANY_EVENTS)) return
    for (const lanes of trace.warps) {
      while (this.#advance(lanes, hasEnded)) {}
      if (!hasEnded) for (const lane of lanes) lane.trim()
    }
    this.#latest = {}
    if (hasEnded) this.#traces.delete(resident)
    else trace.events = 0
  }

  /** Counts the segment that some lanes run next. Returns false if it is not known which. */
  #advance(lanes: readonly Lane[], hasEnded: boolean): boolean {
    let group: Lane[] = []
    const waiting: Lane[] = []
    for (const lane of lanes) {
      if (lane.hasEnded) continue
      if (lane.at === lane.events.length) {
        if (hasEnded) continue
        // Another segment follows. If it is not known which, it may come before those of the other lanes.
        if (lane.last?.next === undefined) return false
        lane.stack[lane.stack.length - 1] = lane.last.next
        waiting.push(lane)
        continue
      }
      if (!lane.isPlaced) this.#place(lane)
      const [first] = group
      const order = first === undefined ? -1 : compare(lane, first)
      if (order < 0) group = [lane]
      else if (order === 0) group.push(lane)
    }
    const [first] = group
    if (first === undefined || waiting.some((lane) => comparePlaces(lane, first) <= 0)) return false
    const number = segmentAt(first, first.at)
    const segment = this.#segment(number)
    for (const lane of group) {
      lane.end = endOf(lane)
      if (segment.branch !== undefined && lane.end === lane.events.length && !hasEnded) return false
    }
    this.#count(number, segment, group)
    for (const lane of group) {
      lane.at = lane.end
      lane.isPlaced = false
      lane.last = segment
      lane.hasEnded = segment.ends === 'thread'
    }
    return true
  }

  #segment(number: number): Segment {
    const segment = this.code.segments[number]
    if (segment === undefined) throw new Error(`There is no segment ${number}`)
    return segment
  }

  /** Finds where a lane stands before its next segment. */
  #place(lane: Lane): void {
    const { begins, position } = this.#segment(segmentAt(lane, lane.at))
    const { stack, last } = lane
    lane.isPlaced = true
    if (last === undefined || (last.ends === 'in a call' && begins === 'function')) {
      stack.push(position)
      return
    }
    if (last.ends === 'function') stack.pop()
    stack[stack.length - 1] = position
  }

  #count(number: number, segment: Segment, group: readonly Lane[]): void {
    this.#runs[number] ??= { warps: 0, threads: 0, divided: 0 }
    const run = this.#runs[number]
    run.warps++
    run.threads += group.length
    if (segment.branch !== undefined && group.length > 1) {
      const target = targetOf(group[0])
      if (group.some((lane) => targetOf(lane) !== target)) run.divided++
    }
    if (group.every(({ at, end }) => end === at + 1)) return
    const next = group.map(({ at }) => at + 1)
    for (;;) {
      let [least, site] = [Number.POSITIVE_INFINITY, -1]
      for (const [index, lane] of group.entries()) {
        const at = next[index] ?? lane.end
        if (at >= lane.end) continue
        const own = Math.floor((lane.events[at] ?? 0) / BYTES)
        const order = this.#orderOf(own, segment)
        if (order < least) [least, site] = [order, own]
      }
      if (site < 0) return
      let bytes = 0
      this.#addresses.fill(-1)
      for (const [index, lane] of group.entries()) {
        const at = next[index] ?? lane.end
        const event = lane.events[at] ?? -1
        if (at >= lane.end || Math.floor(event / BYTES) !== site) continue
        bytes = event % BYTES
        this.#addresses[lane.number] = lane.events[at + 1] ?? -1
        next[index] = at + 2
      }
      this.#request(site, bytes)
    }
  }

  /** The order of each place within the segment that it belongs to; indices are the places' numbers. */
  readonly #orders: number[] = []

  #orderOf(site: number, segment: Segment): number {
    const known = this.#orders[site]
    if (known !== undefined) return known
    const decoded = this.code.sites[site]
    const order = decoded === undefined ? -1 : segment.instructions.indexOf(decoded)
    this.#orders[site] = order
    return order
  }

  /** The address of each lane that takes part in the access which is counted, and -1 of the others. */
  readonly #addresses = new Float64Array(WARP)
  /** The sectors, and the words of shared memory, that the lanes want which were looked at. */
  readonly #distinct = new Set<number>()
  /** The different addresses of global memory that the lanes want. */
  readonly #wanted = new Set<number>()
  readonly #banks = new Uint8Array(BANKS)

  /** Counts an access of a warp. */
  #request(site: number, bytes: number): void {
    this.#accesses[site] ??= { ...NO_ACCESSES }
    const counts = this.#accesses[site]
    const sectors = this.#distinct
    sectors.clear()
    this.#wanted.clear()
    let isShared = false
    for (const address of this.#addresses) {
      if (address < 0 || address >= LOCAL_BEGIN) continue
      if (address >= SHARED_BEGIN) {
        isShared = true
        continue
      }
      // Accesses are aligned, so that two of them have all their bytes in common or none.
      this.#wanted.add(address)
      const last = Math.floor((address + bytes - 1) / SECTOR)
      for (let sector = Math.floor(address / SECTOR); sector <= last; sector++) sectors.add(sector)
    }
    if (sectors.size > 0) counts.globalRequests++
    counts.sectors += sectors.size
    counts.idealSectors += Math.ceil((this.#wanted.size * bytes) / SECTOR)
    if (!isShared) return
    counts.sharedRequests++
    // As many lanes at a time as have a word for each bank.
    const atOnce = Math.min(WARP, (WARP * WORD) / bytes)
    for (let from = 0; from < WARP; from += atOnce) {
      const wavefronts = this.#wavefronts(from, from + atOnce, bytes)
      if (wavefronts === 0) continue
      counts.wavefronts += wavefronts
      counts.bankConflicts += wavefronts - 1
    }
  }

  /** The passes over the banks for the accesses of some lanes: as many as there are words wanted of one bank. */
  #wavefronts(from: number, to: number, bytes: number): number {
    const words = this.#distinct
    words.clear()
    this.#banks.fill(0)
    let most = 0
    for (let lane = from; lane < to; lane++) {
      const address = (this.#addresses[lane] ?? -1) - SHARED_BEGIN
      if (address < 0 || address >= LOCAL_BEGIN - SHARED_BEGIN) continue
      for (let word = Math.floor(address / WORD); word * WORD < address + bytes; word++) {
        if (words.has(word)) continue
        words.add(word)
        const wanted = (this.#banks[word % BANKS] ?? 0) + 1
        this.#banks[word % BANKS] = wanted
        most = Math.max(most, wanted)
      }
    }
    return most
  }

  /** The counts so far, in the order of the lines. Lines that no warp has run are not there. */
  lines(): readonly LineCounts[] {
    const lines = new Map<string, LineCounts>()
    const lineOf = ({ instruction: { line, source } }: Decoded): LineCounts => {
      const place = { file: source?.file, line: source?.line ?? line }
      const key = `${place.file ?? ''}:${place.line}`
      const known = lines.get(key) ?? { ...place, ...NOTHING }
      lines.set(key, known)
      return known
    }
    for (const [number, run] of this.#runs.entries()) {
      if (run === undefined) continue
      const { instructions, branch } = this.#segment(number)
      for (const decoded of instructions) {
        const line = lineOf(decoded)
        line.instructions += run.warps
        line.threads += run.threads
      }
      if (branch === undefined) continue
      const line = lineOf(branch)
      line.branches += run.warps
      line.divergentBranches += run.divided
    }
    for (const [site, counts] of this.#accesses.entries()) {
      const decoded = this.code.sites[site]
      if (counts === undefined || decoded === undefined) continue
      const line = lineOf(decoded)
      line.globalRequests += counts.globalRequests
      line.sectors += counts.sectors
      line.idealSectors += counts.idealSectors
      line.sharedRequests += counts.sharedRequests
      line.wavefronts += counts.wavefronts
      line.bankConflicts += counts.bankConflicts
    }
    const inOrder = (a: LineCounts, b: LineCounts): number =>
      (a.file ?? '') < (b.file ?? '') ? -1 : (a.file ?? '') > (b.file ?? '') ? 1 : a.line - b.line
    return [...lines.values()].sort(inOrder)
  }
}

/** More than the bytes of any access. */
const BYTES = 32

const NO_ACCESSES: Readonly<AccessCounts> = {
  globalRequests: 0,
  sectors: 0,
  idealSectors: 0,
  sharedRequests: 0,
  wavefronts: 0,
  bankConflicts: 0,
}

const NOTHING = { instructions: 0, threads: 0, branches: 0, divergentBranches: 0, ...NO_ACCESSES }

/** The number of the segment that an event of a lane enters. */
const segmentAt = ({ events }: Lane, at: number): number => -1 - (events[at] ?? 0)

/** The index of the event behind the accesses of a lane's next segment. */
function endOf({ events, at }: Lane): number {
  let end = at + 1
  while ((events[end] ?? -1) >= 0) end += 2
  return end
}

/** The event that follows a lane's next segment. */
const targetOf = (lane: Lane | undefined): number | undefined => lane?.events[lane.end]

/** The order in which lanes at different places go: those that are behind first, where one calls another the caller. */
function compare(a: Lane, b: Lane): number {
  return comparePlaces(a, b) || segmentAt(a, a.at) - segmentAt(b, b.at)
}

function comparePlaces(a: Lane, b: Lane): number {
  const depth = Math.min(a.stack.length, b.stack.length)
  for (let index = 0; index < depth; index++) {
    const difference = (a.stack[index] ?? 0) - (b.stack[index] ?? 0)
    if (difference !== 0) return difference
  }
  return a.stack.length - b.stack.length
}
