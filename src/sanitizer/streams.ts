/** The streams and events of a driver as the order between them needs them, and the captures that they are in. */
import { CapturedGraph, type CapturedNode } from '../driver/captured-graph.js'
import {
  cudaHandleOf,
  deviceOfDefaultStream,
  isDefaultStream,
  type NodeHandle,
  type StreamHandle,
  type TouchedMemory,
} from '../driver/driver.js'
import type { Comparison, MemoryValue } from '../driver/values.js'
import { Strand, type StrandPoint } from './clocks.js'
import type { CapturedPlace, NodePlace, OperationStream } from './operations.js'
import type { Region } from './regions.js'
import type { TakenStack } from './stacks.js'

export class StreamStrand extends Strand implements OperationStream {
  name: string | undefined
  closed = false
  /** More than 1 where the driver had given its handle to others before, whose work may be reported beside its own. */
  nth = 1
  /** The tick it began with. */
  readonly since = this.tick
  /** The driver could not be asked about it, since it captured. */
  unsure = false
  /** Set while its work is captured. */
  capture: Capture | undefined

  constructor(
    begin: StrandPoint,
    readonly handle: StreamHandle,
    readonly device: number,
    /** Another library owns it. */
    readonly foreign: boolean,
    /** It was seen being made, and will be seen being destroyed. */
    readonly ours: boolean,
    readonly made: TakenStack | undefined,
    /** The driver's own number for it, which no other stream ever gets; not known of each. */
    public id: bigint | undefined,
    /** True: the null stream's rules are not for it. */
    public nonBlocking: boolean,
  ) {
    super(begin)
  }

  get isCapturing(): boolean {
    return this.capture !== undefined
  }

  get label(): string {
    return this.name ?? addressOf(this.handle, this.nth)
  }
}

function addressOf(handle: StreamHandle, nth: number): string {
  const which = nth === 1 ? '' : `, number ${nth} of this handle`
  if (!isDefaultStream(handle)) return `Stream(0x${cudaHandleOf(handle).toString(16)}${which})`
  const device = deviceOfDefaultStream(handle)
  return `${cudaHandleOf(handle) === 2 ? 'Stream.perThread' : 'Stream.null'}${device === 0 ? '' : ` of device ${device}`}`
}

/** The state of an event. */
export class EventState {
  /** What its latest record comes after; nothing before the first. */
  points: readonly StrandPoint[] = []
  /** The capture that the latest record was made in. */
  captured: Capture | undefined
  /** Each launch of a graph records it, or waits for it. */
  inGraph = false

  constructor(
    /** It was seen being made, so that without a record there is none. */
    readonly made: boolean,
    /** Others may record it, which is not seen. */
    public foreign: boolean,
    /** Its records are work. */
    readonly timing: boolean,
  ) {}
}

/** Told of each launch of a host function: on which stream, its place in the order, and where the graph was launched. */
type HostLaunched = (stream: StreamStrand, at: StrandPoint, work: CapturedWork, stack: TakenStack | undefined) => void

/** What a node of a graph does at each launch. */
type NodeWork =
  | {
      readonly kind: 'work'
      readonly what: string
      readonly memory: readonly TouchedMemory[]
      /** What each piece of it lay in when it was captured. */
      readonly regions: readonly Region[]
      /** The driver's own for it. */
      readonly node: NodeHandle | undefined
    }
  /** Runs JavaScript. */
  | { readonly kind: 'host'; readonly launched: HostLaunched }
  | { readonly kind: 'record' | 'wait'; readonly event: EventState }
  | { readonly kind: 'writeValue'; readonly word: MemoryValue }
  | { readonly kind: 'waitValue'; readonly word: MemoryValue; readonly compare: Comparison }

/** The same, with the place where it was captured. */
export type CapturedWork = NodePlace & NodeWork

export class Capture extends CapturedGraph<StreamStrand, EventState, CapturedWork> {
  /** `seen`: it was seen to begin. Where it was not, `origin` is a stream that is in it. */
  constructor(
    origin: StreamStrand,
    readonly seen: boolean,
    before: readonly CapturedNode<CapturedWork>[] = [],
    after: readonly CapturedNode<CapturedWork>[] = [],
  ) {
    super(origin, before, after)
  }

  /** Adds what each launch of the graph does. */
  put(stream: StreamStrand, work: NodeWork, stack?: TakenStack): void {
    if (work.kind === 'record' || work.kind === 'wait') work.event.inGraph = true
    this.add(stream, { ...work, stream, stack, capture: this, within: [] })
  }

  /** Adds all of another graph. */
  putGraph(stream: StreamStrand, nodes: readonly CapturedNode<CapturedWork>[], stack: TakenStack | undefined): void {
    const place: CapturedPlace = { stream, stack, capture: this }
    const placed = nodes.map(({ index, after, work }) => {
      return { index, after, work: { ...work, within: [place, ...work.within] } }
    })
    this.addAll(stream, placed)
  }

  /** A stream is destroyed: with the one that began it, all of it is over. */
  destroyed(stream: StreamStrand): void {
    if (this.seen && stream === this.origin) this.end()
    else this.leave(stream)
  }
}
