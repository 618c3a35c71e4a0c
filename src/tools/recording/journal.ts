/** Writes the lines of a recording while the program runs: the constant part of a call once, and then only what differs. */
import { monotonicTime } from '../../foundation/base/event-loop.js'
import { process } from '../../foundation/base/node-modules.js'
import { programLines, takeStack } from '../../foundation/base/stack.js'
import type { CallDetails, CallLine, Header, ObjectLine, RecordedCall } from './lines.js'
import type { RecordedWork } from './work-table.js'

/** The number of characters that are kept back before they are written to the file. */
const BUFFER = 65_536
/** The numbers of definitions and of stacks after which those that were written are forgotten, so that the memory for them is bounded. */
const MOST_DEFINITIONS = 32_768
const MOST_STACKS = 4096

/** The nanoseconds of its own below which the recorder does not write them. */
const LEAST_OWN = 1000
/** The most triples in one line of times. */
const MOST_IN_LINE = 256
/**
 * The frames that are taken of a stack: those of this library between the program's call and the place where the stack is taken, and of the program.
 */
const FRAMES = 20
/** The number of stacks that are taken first for each definition; later it is one of EVERY. */
const FIRST = 16
const EVERY = 64
/** The number of stacks in all after which a definition that is like one before has none taken. */
const MOST_FIRST = 4096

/** Calls of which the stack is taken now and then. */
class Site {
  count = 0
  /** The number of the latest stack; 0 before the first. */
  latest = 0
}

/** A call that was made before, perhaps with other details. */
class Definition extends Site {
  /** The stack that was written with the definition last, as it was written. */
  written = 0

  constructor(readonly number: number) {
    super()
  }
}

/** The milliseconds after which the lines that are known by then are written to the file. */
export const WRITE_EVERY = 100

export class Journal {
  #text = ''
  readonly #file: number
  /** The definitions; keys are what tells one from another. */
  #definitions = new Map<string, Definition>()
  #stacks = new Map<string, number>()
  /** The sites; keys are what is the same in calls that mostly come from one line. */
  #alike = new Map<string, Site>()
  #taken = 0
  #calls = 0
  /** The time at which the latest call ended. */
  #last = 0
  /** Whether nothing is written any more: the journal is closed, or the file system has refused. */
  #ended = false
  /** The error of the file system. */
  #failure: { readonly error: unknown } | undefined
  /** The time, by monotonicTime(), at which lines were given to the system last. */
  #flushed = 0
  /** The nanoseconds that the recorder itself has taken since the latest call ended. */
  #own = 0

  /**
   * Makes the file.
   * @throws {Error} of the file system, if the file cannot be made
   */
  constructor(
    readonly path: string,
    private readonly header: Header,
    /** The time in nanoseconds, by a clock that goes on while the recorder works. */
    private readonly clock: () => number,
    /** The lines that led to the call under way, if it is not this program that makes it. */
    private readonly lines?: () => string,
  ) {
    this.#file = process.getBuiltinModule('node:fs').openSync(path, 'w')
    this.#line(header)
    this.flush()
    if (this.#failure !== undefined) this.close()
  }

  /** The number of calls that were written, and so the number of the next one. */
  get calls(): number {
    return this.#calls
  }

  /** The time at which the latest call ended, in nanoseconds since the recording began. */
  get last(): number {
    return this.#last
  }

  /**
   * Writes a call that began and ended at these nanoseconds since the recording began. Returns its number. `stacked` says whether the program's lines
   * that led to it are of interest. A part of the gap before it, in nanoseconds, may be known to have been a recorder's.
   */
  call(call: RecordedCall, began: number, ended: number, more?: CallDetails, stacked = true, recorders = 0): number {
    // A host function may run, and a promise settle, after the recording has ended.
    if (this.#ended) return this.#calls
    const started = this.clock()
    const definition = this.#definition(call)
    const stack = stacked ? this.#stackOf(definition, call) : 0
    const gap = Math.max(0, Math.round(began - this.#last))
    const length = Math.max(0, Math.round(ended - began))
    // The times are rounded to whole nanoseconds, so that a reader, which adds them up, gets these times.
    this.#last += gap + length
    const own = Math.min(gap, Math.round(this.#own + recorders))
    const rest = own < LEAST_OWN ? more : { ...more, own }
    if (rest !== undefined) this.#add(`[${definition.number},${gap},${length},${stack},${JSON.stringify(rest)}]\n`)
    else if (stack !== 0) this.#add(`[${definition.number},${gap},${length},${stack}]\n`)
    else this.#add(`[${definition.number},${gap},${length}]\n`)
    this.#calls += 1
    this.#own = this.clock() - started
    return this.#calls - 1
  }

  /** Writes when operations began and ended: each with the number of the call that queued it, in nanoseconds since the recording began. */
  times(operations: Iterable<readonly [call: number, start: number, end: number]>): void {
    let times: number[] = []
    let lastCall = 0
    let lastStart = 0
    for (const [call, start, end] of operations) {
      const [first, last] = [Math.round(start), Math.round(end)]
      times.push(call - lastCall, first - lastStart, last - first)
      lastCall = call
      lastStart = first
      if (times.length < 3 * MOST_IN_LINE) continue
      this.#line({ times })
      times = []
      lastCall = 0
      lastStart = 0
    }
    if (times.length > 0) this.#line({ times })
  }

  /** Runs work of the recorder, whose time is not the program's. */
  aside(work: () => void): void {
    const started = this.clock()
    work()
    this.#own += this.clock() - started
  }

  object(line: Exclude<ObjectLine, RecordedCall>): void {
    this.#line(line)
  }

  /** Gives the lines to the system, which writes them also if the process crashes then. */
  flush(): void {
    this.#flushed = monotonicTime()
    if (this.#text === '' || this.#ended) return
    const text = this.#text
    this.#text = ''
    try {
      process.getBuiltinModule('node:fs').writeFileSync(this.#file, text)
    } catch (error) {
      this.#ended = true
      this.#failure = { error }
    }
  }

  /** Flushes, if that was not done for WRITE_EVERY. */
  flushIfDue(): void {
    if (monotonicTime() - this.#flushed > WRITE_EVERY) this.flush()
  }

  /**
   * Closes the file.
   * @throws {Error} of the file system, if something could not be written
   */
  close(): void {
    try {
      this.#line({ end: this.#calls, nanoseconds: this.#last })
      this.flush()
    } finally {
      this.#ended = true
      process.getBuiltinModule('node:fs').closeSync(this.#file)
    }
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #definition(call: RecordedCall): Definition {
    const key = keyOf(call)
    const known = this.#definitions.get(key)
    if (known !== undefined) return known
    if (this.#definitions.size >= MOST_DEFINITIONS || this.#stacks.size >= MOST_STACKS) this.#forget()
    const made = new Definition(this.#definitions.size)
    this.#definitions.set(key, made)
    this.#line(call)
    return made
  }

  #forget(): void {
    this.#definitions = new Map()
    this.#stacks = new Map()
    this.#alike = new Map()
    this.#line({ forget: true })
  }

  /** The number of the call's stack, negative for that of an earlier call like it; 0 if the stack is the one of the definition's latest call. */
  #stackOf(definition: Definition, call: RecordedCall): number {
    const stack = this.#sample(definition, call)
    if (stack === definition.written) return 0
    definition.written = stack
    return stack
  }

  #sample(definition: Definition, call: RecordedCall): number {
    const { stacks } = this.header
    if (stacks === 'none') return 0
    if (stacks === 'all') return this.#take()
    definition.count += 1
    const { count, latest } = definition
    if (latest !== 0 && count % EVERY !== 0 && (count > FIRST || this.#taken >= MOST_FIRST)) return -latest
    const alike = this.#likeOf(call)
    alike.count += 1
    if (this.#taken >= MOST_FIRST && alike.latest !== 0 && alike.count % EVERY !== 0) {
      definition.latest = alike.latest
      return -alike.latest
    }
    const taken = this.#take()
    definition.latest = taken
    alike.latest = taken
    return taken
  }

  #likeOf(call: RecordedCall): Site {
    const key = call.call === 'queue' ? likeness(call.work) : call.call
    let site = this.#alike.get(key)
    if (site === undefined) {
      site = new Site()
      this.#alike.set(key, site)
    }
    return site
  }

  #take(): number {
    this.#taken += 1
    const text = this.lines === undefined ? takeStack(FRAMES, this.call) : this.lines()
    // A call without lines must not seem to have those of an earlier call like it, as is possible where all stacks are taken.
    if (text === '' && this.header.stacks !== 'all') return 0
    let number = this.#stacks.get(text)
    if (number === undefined) {
      number = this.#stacks.size + 1
      this.#stacks.set(text, number)
      this.#line({ stack: this.lines === undefined ? programLines(text).join('\n') : text })
    }
    return number
  }

  #line(line: Header | ObjectLine | CallLine): void {
    this.#add(`${JSON.stringify(line)}\n`)
  }

  #add(text: string): void {
    if (this.#ended) return
    this.#text += text
    if (this.#text.length >= BUFFER) this.flush()
  }
}

/** The common part of work that mostly comes from one line of a program. */
function likeness(work: RecordedWork): string {
  if (work.kind === 'library') return work.calls.map(({ name, stream }) => `${name} ${stream}`).join()
  return `${work.kind} ${'name' in work ? work.name : ''} ${work.stream}`
}

/** The part that tells a call from others. The commonest are told apart without the microsecond that their JSON takes. */
function keyOf(call: RecordedCall): string {
  switch (call.call) {
    case 'record':
      return `record ${call.event} ${call.stream} ${call.external}`
    case 'recordInternal':
      return `recordInternal ${call.event} ${call.stream}`
    case 'wait':
      return `wait ${call.stream} ${call.event} ${call.external}`
    case 'waitStream':
      return `waitStream ${call.stream} ${call.other} ${call.context}`
    case 'return':
      return 'return'
    case 'queue':
      return keyOfWork(call.work) ?? JSON.stringify(call)
    default:
      return JSON.stringify(call)
  }
}

function keyOfWork(work: RecordedWork): string | undefined {
  if (work.kind === 'copy' && work.rows === undefined && work.route === undefined) {
    const { stream, name, destination, source, byteLength, engine } = work
    return `copy ${stream} ${name} ${destination} ${source} ${byteLength} ${engine}`
  }
  if (work.kind === 'fill' && work.rows === undefined) {
    const { stream, pointer, value, width, count } = work
    return `fill ${stream} ${pointer} ${value} ${width} ${count}`
  }
  if (work.kind !== 'kernel') return undefined
  const { stream, name, grid, block, sharedMemory, blocksAtOnce, memory } = work
  let key = `kernel ${stream} ${grid.join()} ${block.join()} ${sharedMemory} ${blocksAtOnce}`
  for (const { pointer, byteLength, access, argument, rows } of memory) {
    if (rows !== undefined) return undefined
    key += ` ${pointer} ${byteLength} ${access} ${argument}`
  }
  // The name comes at the end, since it may contain any characters.
  return `${key} ${name}`
}
