/**
 * Vector clocks. Work that runs in order is a component: a stream, a branch of a graph, the JavaScript thread. Each event of
 * a component has a time, and a clock: `clock[i]` is the latest time of component `i` that happens before the event. An event
 * that happens after another happens after all that the other one does.
 */
export type VectorClock = readonly number[]

/** An event: a component at a time. */
export interface Epoch {
  readonly component: number
  readonly time: number
  /** The latest times of the other components that happen before the event. */
  readonly clock: VectorClock
}

/** The component of an event that happens before no other. Small enough for V8 to keep components as plain integers. */
export const NOWHERE = 2 ** 30

/** Does `earlier` happen before `later`, or is it the same event? */
export function isBefore(earlier: Epoch, later: Epoch): boolean {
  return timeBefore(later, earlier.component) >= earlier.time
}

/** The latest time of a component that happens before the event. */
export function timeBefore(event: Epoch, component: number): number {
  if (component === event.component) return event.time
  return component < event.clock.length ? (event.clock[component] as number) : 0
}

/** A component, as the event that it has come to. */
export class Component implements Epoch {
  readonly component: number
  time: number
  clock: VectorClock
  /** The epoch that was made last. It is kept because it is often used again. */
  #last: readonly [Epoch] | undefined

  constructor({ component, time, clock }: Epoch) {
    this.component = component
    this.time = time
    this.clock = clock
  }

  /** Lets all later events of this component happen after the event. */
  join(event: Epoch): void {
    if (isBefore(event, this)) return
    const clock = merged(this.clock, event.clock, event.component + 1)
    if ((clock[event.component] as number) < event.time) clock[event.component] = event.time
    this.clock = clock
    this.time += 1
  }

  /** Lets all later events happen after all that a clock has. False where that changes nothing. */
  joinClock(clock: VectorClock): boolean {
    if (clock.every((time, component) => timeBefore(this, component) >= time)) return false
    this.clock = merged(this.clock, clock)
    this.time += 1
    return true
  }

  /** Lets later events happen after what this clock has, and after nothing else. */
  turnTo(clock: VectorClock): void {
    if (clock === this.clock) return
    this.clock = clock
    this.time += 1
  }

  /** Moves to the next event of the component. */
  advance(): this {
    this.time += 1
    return this
  }

  /** Moves to the next event of the component, and returns it. */
  next(): Epoch {
    return this.advance().epoch()
  }

  /** The latest event of the component. */
  epoch(): Epoch {
    return this.epochs()[0]
  }

  /** An array with the latest event alone. */
  epochs(): readonly [Epoch] {
    // The clock changes with the time.
    if (this.#last?.[0].time === this.time) return this.#last
    const { component, time, clock } = this
    this.#last = [{ component, time, clock }]
    return this.#last
  }
}

/** The latest times that either clock has, for at least so many components. */
export function merged(one: VectorClock, other: VectorClock, least = 0): number[] {
  const length = Math.max(one.length, other.length, least)
  const clock = new Array<number>(length)
  for (let at = 0; at < length; at += 1) {
    const time = at < one.length ? (one[at] as number) : 0
    const otherTime = at < other.length ? (other[at] as number) : 0
    clock[at] = time > otherTime ? time : otherTime
  }
  return clock
}

/** The latest times that both clocks have. */
export function common(one: VectorClock, other: VectorClock): number[] {
  const length = Math.min(one.length, other.length)
  return Array.from({ length }, (_, component) => Math.min(one[component] as number, other[component] as number))
}

/** The clock of the event, with the event itself. */
export function clockThrough({ component, time, clock }: Epoch): number[] {
  const through = merged(clock, [], component + 1)
  through[component] = time
  return through
}

/**
 * The number of ended components that are checked for reuse when a new one is needed. A component can be reused once
 * all of its events are known to be done.
 */
const TRIED = 8
/**
 * The most ended components that are kept until the part of JavaScript that begins the next component knows them to
 * be done.
 */
const KEPT = 64

/** All components of the work of one driver. */
export class Components {
  /** The clock of the JavaScript thread: the work that it knows to be done. All that it queues happens after that. */
  readonly host = new Component({ component: 0, time: 1, clock: [] })
  /** The work that any part of JavaScript has known to be done. Operations can be forgotten when they are in it. */
  readonly all: Component
  #count = 1
  #ended: Component[] = []

  /** `areCausal`: parts of JavaScript have clocks of their own. */
  constructor(areCausal: boolean) {
    this.all = areCausal ? new Component({ component: NOWHERE, time: 1, clock: [] }) : this.host
  }

  /** The number of components in use. */
  get count(): number {
    return this.#count - this.#ended.length
  }

  /** Begins a new component. */
  begin(): Epoch {
    const { clock } = this.host
    const free = this.#free()
    if (free !== undefined) return { component: free.component, time: free.time + 1, clock }
    this.#count += 1
    return { component: this.#count - 1, time: 1, clock }
  }

  /** Begins a component that stands for one of another thread: it has had no times. Returns its number. */
  beginOther(): number {
    this.#count += 1
    return this.#count - 1
  }

  end(component: Component): void {
    this.#ended.push(component)
  }

  #free(): Component | undefined {
    for (let tried = 0; tried < TRIED; tried += 1) {
      const component = this.#ended.shift()
      if (component === undefined) return undefined
      if (isBefore(component, this.#ended.length < KEPT ? this.host : this.all)) return component
      this.#ended.push(component)
    }
    return undefined
  }
}
