/**
 * Vector clocks. Work that runs in order is a component: a stream, a branch of a graph, the JavaScript thread. Each event of
 * a component has a time, and a clock: the latest time of each component that happens before the event. An event that
 * happens after another happens after all that the other one does.
 */

const BITS = 5
const WIDTH = 2 ** BITS
const MASK = WIDTH - 1

/**
 * The latest times of components, 0 where there is none. It never changes. Clocks are trees that share the parts in which they are
 * equal: that of an event differs little from those of the events before, so that many events of many components take little memory.
 */
export class VectorClock {
  constructor(
    /** 0: it has the times of 32 components. Otherwise it has 32 parts of the level below. */
    readonly level: number,
    readonly times: readonly number[],
    readonly parts: readonly VectorClock[],
  ) {}
}

/** The clock of an event that happens after no other. It may be a part of any level. */
export const NO_TIMES = new VectorClock(0, [], [])

const NO_PARTS: readonly VectorClock[] = []
const NO_NUMBERS: readonly number[] = []

const leaf = (times: readonly number[]): VectorClock => new VectorClock(0, times, NO_PARTS)

interface ComponentTime {
  readonly component: number
  readonly time: number
}

/** An event: a component at a time. */
export interface Epoch extends ComponentTime {
  /** The latest times of the other components that happen before the event. */
  readonly clock: VectorClock
}

/** The component of an event that happens before no other. Small enough for V8 to keep components as plain integers. */
export const NOWHERE = 2 ** 30

/** Does `earlier` happen before `later`, or is it the same event? */
export function isBefore(earlier: ComponentTime, later: Epoch): boolean {
  return timeBefore(later, earlier.component) >= earlier.time
}

/** The latest time of a component that happens before the event. */
export function timeBefore(event: Epoch, component: number): number {
  if (component === event.component) return event.time
  return timeIn(event.clock, component)
}

/** The latest time of a component that a clock has. */
export function timeIn(clock: VectorClock, component: number): number {
  let { level } = clock
  if (level === 0) return component < clock.times.length ? (clock.times[component] as number) : 0
  if (component >>> (BITS * (level + 1)) !== 0) return 0
  let part: VectorClock | undefined = clock
  for (; level > 0; level -= 1) {
    part = part.parts[(component >>> (BITS * level)) & MASK]
    if (part === undefined) return 0
  }
  return part.times[component & MASK] ?? 0
}

/** Calls a function with each component that has a time. */
export function forEachTime(clock: VectorClock, fn: (component: number, time: number) => void, from = 0): void {
  const { level, times, parts } = clock
  for (let index = 0; index < times.length; index += 1) {
    const time = times[index] as number
    if (time > 0) fn(from + index, time)
  }
  for (let index = 0; index < parts.length; index += 1) {
    forEachTime(parts[index] as VectorClock, fn, from + index * WIDTH ** level)
  }
}

/** The clock with another time of one component. */
export function withTime(clock: VectorClock, component: number, time: number): VectorClock {
  let root = clock
  while (component >>> (BITS * (root.level + 1)) !== 0) root = raised(root, root.level + 1)
  return replaced(root, root.level, component, time)
}

function replaced(part: VectorClock, level: number, component: number, time: number): VectorClock {
  const index = (component >>> (BITS * level)) & MASK
  if (level === 0) {
    const times = part.times.slice()
    while (times.length < index) times.push(0)
    times[index] = time
    return leaf(times)
  }
  const parts = part.parts.slice()
  while (parts.length <= index) parts.push(NO_TIMES)
  parts[index] = replaced(parts[index] as VectorClock, level - 1, component, time)
  return new VectorClock(level, NO_NUMBERS, parts)
}

/** The same times as a part of a higher level. */
function raised(clock: VectorClock, level: number): VectorClock {
  if (clock === NO_TIMES) return new VectorClock(level, NO_NUMBERS, NO_PARTS)
  let root = clock
  while (root.level < level) root = new VectorClock(root.level + 1, NO_NUMBERS, [root])
  return root
}

/** The latest times that either clock has. */
export function merged(one: VectorClock, other: VectorClock): VectorClock {
  if (one.level < other.level) return mergedParts(raised(one, other.level), other)
  if (one.level > other.level) return mergedParts(one, raised(other, one.level))
  return mergedParts(one, other)
}

/** Merges two parts of the same level. If one part has all that the other has, it is the result. */
function mergedParts(one: VectorClock, other: VectorClock): VectorClock {
  if (one === other || other === NO_TIMES) return one
  if (one === NO_TIMES) return other
  return one.level === 0 ? mergedTimes(one, other) : mergedNodes(one, other)
}

function mergedTimes(one: VectorClock, other: VectorClock): VectorClock {
  const [a, b] = [one.times, other.times]
  const shorter = Math.min(a.length, b.length)
  let [isOne, isOther] = [a.length >= b.length, b.length >= a.length]
  for (let at = 0; at < shorter && (isOne || isOther); at += 1) {
    if ((a[at] as number) < (b[at] as number)) isOne = false
    else if ((a[at] as number) > (b[at] as number)) isOther = false
  }
  if (isOne) return one
  if (isOther) return other
  const times = a.length >= b.length ? a.slice() : b.slice()
  for (let at = 0; at < shorter; at += 1) times[at] = Math.max(a[at] as number, b[at] as number)
  return leaf(times)
}

function mergedNodes(one: VectorClock, other: VectorClock): VectorClock {
  const [a, b] = [one.parts, other.parts]
  const length = Math.max(a.length, b.length)
  const parts = new Array<VectorClock>(length)
  let [isOne, isOther] = [true, true]
  for (let at = 0; at < length; at += 1) {
    const [left, right] = [a[at] ?? NO_TIMES, b[at] ?? NO_TIMES]
    const part = mergedParts(left, right)
    if (part !== left) isOne = false
    if (part !== right) isOther = false
    parts[at] = part
  }
  if (isOne) return one
  return isOther ? other : new VectorClock(one.level, NO_NUMBERS, parts)
}

/** The latest times that both clocks have. */
export function common(one: VectorClock, other: VectorClock): VectorClock {
  let [low, high] = one.level < other.level ? [one, other] : [other, one]
  while (high.level > low.level) high = high.parts[0] ?? NO_TIMES
  // The first part of a high clock may be one without times, of no level of its own.
  while (low.level > high.level) low = low.parts[0] ?? NO_TIMES
  return commonParts(low, high)
}

function commonParts(one: VectorClock, other: VectorClock): VectorClock {
  if (one === other) return one
  if (one === NO_TIMES || other === NO_TIMES) return NO_TIMES
  if (one.level === 0) {
    const length = Math.min(one.times.length, other.times.length)
    return leaf(Array.from({ length }, (_, at) => Math.min(one.times[at] as number, other.times[at] as number)))
  }
  const length = Math.min(one.parts.length, other.parts.length)
  const parts = Array.from({ length }, (_, at) => commonParts(one.parts[at] ?? NO_TIMES, other.parts[at] ?? NO_TIMES))
  return new VectorClock(one.level, NO_NUMBERS, parts)
}

/** The clock of the event, with the event itself. */
export function clockThrough({ component, time, clock }: Epoch): VectorClock {
  return withTime(clock, component, time)
}

/** Does all that a clock has happen before the event, or is it the event itself? */
function isWithin(clock: VectorClock, event: Epoch): boolean {
  if (clock === event.clock) return true
  let isAll = true
  if (clock.level === 0) {
    for (let at = 0; at < clock.times.length && isAll; at += 1)
      isAll = timeBefore(event, at) >= (clock.times[at] as number)
    return isAll
  }
  const level = Math.max(clock.level, event.clock.level)
  return arePartsWithin(raised(clock, level), raised(event.clock, level), event, 0)
}

function arePartsWithin(one: VectorClock, other: VectorClock, event: Epoch, from: number): boolean {
  if (one === other || one === NO_TIMES) return true
  if (one.level === 0) {
    return one.times.every((time, at) => {
      const has = other.times[at] ?? 0
      return time <= has || (from + at === event.component && time <= event.time)
    })
  }
  const span = WIDTH ** one.level
  return one.parts.every((part, at) => arePartsWithin(part, other.parts[at] ?? NO_TIMES, event, from + at * span))
}

/** The event with which a component begins. */
export interface Begin extends Epoch {
  /**
   * The first time of each component, by component number. Events with earlier times belong to components that had the number
   * before.
   */
  readonly begins: readonly number[]
}

/** A component, as the event that it has come to. */
export class Component implements Begin {
  readonly component: number
  time: number
  clock: VectorClock
  readonly begins: readonly number[]
  /** The time of its latest wait for a value of memory, if a later write may still change what that comes after. */
  waitedAt = 0
  /** The component has no more events, and its number may be that of another component. */
  hasEnded = false
  /** The epoch that was made last. It is kept because it is often used again. */
  #last: readonly [Epoch] | undefined

  constructor({ component, time, clock, begins }: Begin) {
    this.component = component
    this.time = time
    this.clock = clock
    this.begins = begins
  }

  /** Lets all later events of this component happen after the event. */
  join(event: Epoch): void {
    const { component, time } = event
    // This may have times of another component that has the number by now: these say nothing of the event.
    if (isBefore(event, this) && time >= (this.begins[component] ?? 0)) return
    const clock = merged(this.clock, event.clock)
    this.clock = timeIn(clock, component) < time ? withTime(clock, component, time) : clock
    this.time += 1
  }

  /** Lets all later events happen after all that a clock has. False where that changes nothing. */
  joinClock(clock: VectorClock): boolean {
    if (isWithin(clock, this)) return false
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

/** The components whose events something refers to, so that their numbers cannot be given to others. */
export class References {
  readonly #components = new Set<number>()
  /** How many events were looked at. */
  count = 0

  add({ component }: Epoch): void {
    this.count += 1
    this.#components.add(component)
  }

  has(component: number): boolean {
    return this.#components.has(component)
  }
}

/** The number of ended components that are checked for being known to be done when a new component is needed. */
const TRIED = 8
/** The number of ended components at which the first search begins for those that nothing refers to any more. */
const FIRST_LOOK = 16
/** The number of references that are searched for each ended component. */
const LOOKS = 4

/**
 * All components of the work of one driver. The number of one that has ended is used again, with later times, once no event of it
 * can be compared with a later one any more: the component that has the number next begins after all of them, or nothing refers to them.
 * That other clocks still have times of it does no harm, since they are earlier than all times of the next.
 */
export class Components {
  /** The first time of each component, by component number, as in `Begin`. */
  readonly begins: number[] = [1]
  /** The clock of the JavaScript thread: the work that it knows to be done. All that it queues happens after that. */
  readonly host = new Component({ component: 0, time: 1, clock: NO_TIMES, begins: this.begins })
  /** The work that any part of JavaScript has known to be done. Operations can be forgotten when they are in it. */
  readonly all: Component
  /** Adds the events that may still be compared with later ones. */
  addReferences: (references: References) => void = () => {}
  #ended: ComponentTime[] = []
  /** Components that ended and that nothing refers to, the one with the lowest number last. */
  #unused: ComponentTime[] = []
  #nextLook = FIRST_LOOK

  /** `areCausal`: parts of JavaScript have clocks of their own. */
  constructor(areCausal: boolean) {
    this.all = areCausal ? new Component(this.nowhere(NO_TIMES)) : this.host
  }

  /** The number of components in use. */
  get count(): number {
    return this.begins.length - this.#ended.length - this.#unused.length
  }

  /** How many numbers there are: clocks have as many times at most. */
  get numbers(): number {
    return this.begins.length
  }

  /** The event of no component that happens after what a clock has. */
  nowhere(clock: VectorClock): Begin {
    return { component: NOWHERE, time: 1, clock, begins: this.begins }
  }

  /** Begins a new component. */
  begin(): Begin {
    const { begins } = this
    const { clock } = this.host
    const free = this.#free()
    if (free === undefined) {
      begins.push(1)
      return { component: begins.length - 1, time: 1, clock, begins }
    }
    const { component } = free
    const time = free.time + 1
    begins[component] = time
    return { component, time, clock, begins }
  }

  /** Begins a component that stands for one of another thread. No other had its number, which is returned. */
  beginOther(): number {
    return this.begins.push(0) - 1
  }

  /** Begins a component that happens after nothing but what it joins. No other had its number. */
  beginApart(): Component {
    const { begins } = this
    return new Component({ component: this.beginOther(), time: 1, clock: NO_TIMES, begins })
  }

  /** The component will have no events any more. */
  end(ended: Component): void {
    ended.hasEnded = true
    const { component, time } = ended
    this.#ended.push({ component, time })
  }

  #free(): ComponentTime | undefined {
    const unused = this.#unused.pop()
    if (unused !== undefined) return unused
    const known = this.#firstKnown()
    if (known !== undefined || this.#ended.length < this.#nextLook) return known
    const references = new References()
    this.addReferences(references)
    const ended = this.#ended
    this.#ended = ended.filter(({ component }) => references.has(component))
    const unreferenced = ended.filter(({ component }) => !references.has(component))
    // Clocks have fewer parts where the low numbers are used first.
    this.#unused = unreferenced.sort((a, b) => b.component - a.component)
    this.#nextLook = Math.max(FIRST_LOOK, 2 * this.#ended.length, references.count / LOOKS)
    return this.#unused.pop()
  }

  /**
   * Takes an ended component of which JavaScript knows all events to be done: a component that begins now happens after them.
   */
  #firstKnown(): ComponentTime | undefined {
    for (let tried = 0; tried < TRIED; tried += 1) {
      const component = this.#ended.shift()
      if (component === undefined || isBefore(component, this.host)) return component
      this.#ended.push(component)
    }
    return undefined
  }
}
