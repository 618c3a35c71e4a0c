/** The operations that touch memory (queued work, and JavaScript itself) and the call stacks that name them in reports. */
import { programLines, takeStack } from '../../foundation/base/stack.js'
import type { Epoch, VectorClock } from '../../foundation/base/vector-clock.js'
import type { StreamHandle } from '../../foundation/driver/handle-types.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'

/** `host` is what a process does itself, in any language, beside JavaScript that asks for a view. */
export type CheckedOperationKind = 'work' | 'allocation' | 'free' | 'javascript' | 'host'

/** The facts about a stream that reports of its operations need. */
export interface OperationStream {
  /** A number that no other stream of the sanitizer has. */
  readonly serial: number
  readonly handle: StreamHandle
  readonly device: number
  /** The name of the stream in reports. */
  readonly label: string
  /** The place at which the stream was made, if that was observed. */
  readonly made: TakenStack | undefined
  /** Whether the stream was destroyed, so that no work can be queued on it. */
  readonly closed: boolean
  readonly isCapturing: boolean
}

/** The place at which a node of a graph was captured, or a graph was put into another. */
export interface CapturedPlace {
  readonly stream: OperationStream
  readonly stack: TakenStack | undefined
  /** The identity of the capture, since several can add to one graph. */
  readonly capture: object
}

/** The place at which a node was captured, through all graphs that contain it. */
export interface NodePlace extends CapturedPlace {
  /** The places at which the node's graph was made a child of another graph, and so on: the outermost first. */
  readonly within: readonly CapturedPlace[]
}

/** The origin of a host function that touches memory, or queues work, while it runs. */
export interface HostFunctionOrigin {
  readonly stream: OperationStream
  /** The position of the host function in the order of the calls. */
  readonly sequence: number
  /** The place at which the host function was queued, or its graph was launched. */
  readonly queued: TakenStack | undefined
  /** The node of the host function, if a graph runs it. */
  readonly captured: NodePlace | undefined
  /** The launch of that graph. */
  readonly launch: GraphLaunch | undefined
}

/** One launch of a graph. */
export interface GraphLaunch {
  /** The place of its last node in the order of the calls. */
  last: number
}

/**
 * The two places of nodes of one launch in the innermost graph that contains both, which the program should order. Undefined for other operations.
 * Unordered nodes on one stream are always of one launch, since launches of a stream run one after another.
 */
export function placesInOneLaunch(
  { captured: one, stream }: CheckedOperation,
  { captured: other, stream: otherStream }: CheckedOperation,
): readonly [CapturedPlace, CapturedPlace] | undefined {
  if (one === undefined || other === undefined || stream !== otherStream) return undefined
  const depth = one.within.findIndex((place, level) => place !== other.within[level])
  const level = depth < 0 ? one.within.length : depth
  return [one.within[level] ?? one, other.within[level] ?? other]
}

/** Whether one of the operations was queued too late to run before the other, an access by JavaScript that has not waited in between. */
export function isInOneTurn(one: CheckedOperation, other: CheckedOperation): boolean {
  return isAfter(one, other.since) || isAfter(other, one.since)
}

const isAfter = ({ sequence }: CheckedOperation, since: number | undefined): boolean =>
  since !== undefined && sequence > since

/** The thread that did an operation, and the time since which the sanitizers knew the order of all threads. */
export interface OtherThread {
  readonly thread: number
  readonly era: number
}

/** One operation that touches memory, with its place in the happens-before order. All operations have one shape, as there are many. */
export class CheckedOperation implements Epoch {
  readonly component: number
  readonly time: number
  readonly clock: VectorClock
  /**
   * The sequence number at which JavaScript last waited before an access of its own. Host functions that were queued after it cannot have run yet.
   */
  since: number | undefined
  /** All memory that a kernel touched, once the simulator has run it. */
  exact: readonly TouchedMemory[] | undefined = undefined
  /** Whether `exact` will be known. Until then only the memory that the operation may touch is known. */
  awaitsExact = false
  /** The regions in which it is one side of a race: then that is why it finds bytes there unwritten. */
  racedIn: Set<object> | undefined = undefined
  /** The thread that did the operation; undefined for this thread. */
  other: OtherThread | undefined = undefined

  constructor(
    at: Epoch,
    /** The position of the operation in the order of the calls. */
    readonly sequence: number,
    /** The kind and name of the operation: 'copy', 'fill', "kernel 'axpy'" … */
    readonly what: string,
    readonly kind: CheckedOperationKind,
    /** The stream of the operation; undefined for JavaScript outside of host functions. */
    readonly stream: OperationStream | undefined,
    /** The stack of the call. It may be that of an earlier operation of its kind until there is something to report. */
    public stack: TakenStack | undefined,
    readonly memory: readonly TouchedMemory[],
    readonly captured: NodePlace | undefined,
    /** The host function that did this operation, or queued it. */
    readonly inside: HostFunctionOrigin | undefined,
  ) {
    this.component = at.component
    this.time = at.time
    this.clock = at.clock
  }

  /** The memory, if some of it is touched in rows with gaps between them; otherwise undefined. */
  get scattered(): readonly TouchedMemory[] | undefined {
    if (this.exact !== undefined) return this.exact
    for (let index = 0; index < this.memory.length; index += 1) {
      if (this.memory[index]?.rows !== undefined) return this.memory
    }
    return undefined
  }
}

/** The frames of this library between the program's call and the place where the stack is taken. */
const OWN_FRAMES = 10
const CALLERS = 8
const SHOWN = 6
const IDENTIFYING = 3

const isBuiltIn = (line: string): boolean => /\((<anonymous>|native(:\d+)*)\)$/.test(line)

/** The lines that a report shows: the program's own, innermost first, without built-ins that this library calls. */
export function shownLines(stack: string): readonly string[] {
  const lines = programLines(stack)
  const first = lines.findIndex((line) => !isBuiltIn(line))
  return first < 0 ? [] : lines.slice(first, first + SHOWN)
}

/** The lines that a report shows of a stack; none where none was taken. */
export const linesOf = (stack: TakenStack | undefined): readonly string[] =>
  stack === undefined ? [] : shownLines(stack.stack)

/** The lines that tell one place from another: those of the calls under way, not of the functions that await them. */
export function identifyingLines(stack: string): readonly string[] {
  const lines = shownLines(stack).filter((line) => !isBuiltIn(line))
  const awaiting = lines.findIndex((line) => line.startsWith('at async '))
  return lines.slice(0, awaiting > 0 ? Math.min(awaiting, IDENTIFYING) : IDENTIFYING).map(withoutReceiver)
}

/** The line without the receiver of a method: Node names one function `again`, or `Immediate.again [as _onImmediate]` if a timer calls it. */
function withoutReceiver(line: string): string {
  const [name = '', ...place] = line.slice('at '.length).split(' (')
  if (place.length === 0) return name
  const [own = ''] = name.split(' [as ')
  return `${own.slice(own.lastIndexOf('.') + 1)} (${place.join(' (')}`
}

/**
 * Whether the lines are the same, as far as both have some. After an `await` a function has no callers any more, so one place can have more or fewer
 * outer lines.
 */
export function isSamePlace(one: readonly string[], other: readonly string[]): boolean {
  const length = Math.min(one.length, other.length)
  if (length === 0) return one.length === other.length
  return one.slice(0, length).every((line, index) => line === other[index])
}

/** The stack of an operation, or of an earlier one of its site. */
export interface TakenStack {
  readonly stack: string
  readonly exact: boolean
  /** The site that the stack was sampled for; undefined if it is the operation's own. */
  readonly site: SampledSite | undefined
}

/** A kind of call that one stream makes again and again with memory of one size. Its stack is taken now and then. */
export class SampledSite {
  count = 0
  /** Whether one of these calls was reported. From then on each of them has its own stack taken. */
  isReported = false
  /** The latest stack that was taken, for calls that have none of their own. */
  latest: TakenStack | undefined

  constructor(
    readonly what: string,
    /** The serial number of the stream. The stream itself need not be kept reachable once it is closed. */
    readonly by: number,
  ) {}
}

/** The number of calls of a site that have their stacks taken at first; later it is one of 64. */
const FIRST = 16
const EVERY = 64
/** The number of stacks in all after which a new site has only its first one taken. */
const MOST_FIRST = 4096
const MOST_SITES = 64

/** The choice of operations that have their stacks taken. */
export type StackMode = 'sampled' | 'all' | 'none'

export const STACK_MODES: readonly StackMode[] = ['sampled', 'all', 'none']

export class Stacks {
  #taken = 0

  constructor(private readonly mode: StackMode) {}

  /** The stack of the call under way; undefined if no stacks are taken. */
  take(): TakenStack | undefined {
    if (this.mode === 'none') return undefined
    return { stack: takeStack(OWN_FRAMES + CALLERS, this.take), exact: true, site: undefined }
  }

  /**
   * The stack of the call under way, or mostly an earlier one of the same site. Taking a stack costs ten times as much as the rest of the sanitizer,
   * and what one stream does again and again with the same memory mostly comes from the same line.
   */
  sample(sites: SampledSite[], what: string, { serial }: Pick<OperationStream, 'serial'>): TakenStack | undefined {
    if (this.mode !== 'sampled') return this.take()
    const site = find(sites, what, serial)
    site.count += 1
    const { count, latest, isReported } = site
    if (latest !== undefined && !isReported && count % EVERY !== 0 && (count > FIRST || this.#taken >= MOST_FIRST)) {
      return latest
    }
    this.#taken += 1
    const stack = takeStack(OWN_FRAMES + CALLERS, this.sample)
    site.latest = { stack, exact: false, site }
    return { stack, exact: true, site: undefined }
  }
}

function find(sites: SampledSite[], what: string, by: number): SampledSite {
  for (let index = 0; index < sites.length; index += 1) {
    const site = sites[index] as SampledSite
    if (site.by === by && site.what === what) return site
  }
  if (sites.length >= MOST_SITES) sites.splice(0, MOST_SITES / 2)
  const made = new SampledSite(what, by)
  sites.push(made)
  return made
}
