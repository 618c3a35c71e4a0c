/** Reads a recording, line by line, also one of a process that crashed: its end is missing then. */
import { invalidValue } from '../../foundation/base/errors.js'
import { process } from '../../foundation/base/node-modules.js'
import { isHeaderLine, isLine, orDamaged } from './line-checks.js'
import type { CallDetails, CallLine, End, Header, ObjectLine, RecordedCall, StreamFacts } from './lines.js'
import { VERSION } from './lines.js'

/** The bytes that are read at one time. */
const PIECE = 2 ** 20
/** The most characters of a line: no recorder writes more, and a file without line ends is not read as a whole. */
const LONGEST_LINE = 2 ** 26

/** One call of a recording. Times are nanoseconds since it began. */
export interface TimedCall {
  readonly what: 'call'
  readonly number: number
  readonly call: RecordedCall
  readonly began: number
  readonly ended: number
  /** The program's lines that led to the call, as they are in a stack; empty if the stack was not taken. */
  readonly stack: string
  /** Whether the stack is the call's own. If not, it is that of an earlier call like it. */
  readonly exact: boolean
  readonly more: CallDetails
}

export type Entry =
  | TimedCall
  | { readonly what: 'stream'; readonly facts: StreamFacts }
  | { readonly what: 'bytes'; readonly pointer: number; readonly bytes: string }
  /** The times of work. `each` calls its argument with the times of each call's work. */
  | { readonly what: 'times'; readonly each: (visit: (call: number, start: number, end: number) => void) => void }
  | { readonly what: 'end' }

const NOTHING: CallDetails = {}

export class Reader {
  readonly header: Header
  readonly #lines: Iterator<string | undefined>
  #definitions: { readonly call: RecordedCall; stack: number }[] = []
  #stacks: string[] = []
  #calls = 0
  #now = 0
  /** Whether the last line has been read, which says that nothing is missing. */
  isComplete = false

  /**
   * Opens a recording. Of one that `isGrowing` more entries may come after the end that it has now.
   * @throws {Error} ERR_INVALID_ARG_VALUE for a file that is no recording, or of another version; any error of the file system
   */
  constructor(
    readonly path: string,
    isGrowing = false,
  ) {
    this.#lines = linesOf(path, isGrowing)
    const { value: first } = this.#lines.next()
    const header: unknown = parsed(first)
    if (!isHeader(header)) throw invalidValue(`${path} is no recording: its first line is not that of one`)
    if (header.recording !== VERSION) {
      throw invalidValue(`${path} is a recording of version ${header.recording}, and this reads version ${VERSION}`)
    }
    if (!isHeaderLine(header)) throw invalidValue(`${path} is damaged at its first line`)
    this.header = header
  }

  /** The number of calls that have been read. */
  get calls(): number {
    return this.#calls
  }

  /** The time at which the latest call ended. */
  get now(): number {
    return this.#now
  }

  /** The next entry; undefined at the end. */
  next(): Entry | undefined {
    for (;;) {
      const { value, done } = this.#lines.next()
      if (done === true || value === undefined) return undefined
      const line = parsed(value) as ObjectLine | CallLine | undefined
      if (line === undefined) {
        // The last line of a process that crashed may be a part of one.
        if (this.#lines.next().done === true) return undefined
        throw this.#damaged("two processes may have written it, see '%p'")
      }
      if (!isLine(line)) throw this.#damaged()
      const entry = isCall(line) ? this.#timedCall(line) : this.#object(line)
      if (entry !== undefined) return entry
    }
  }

  /**
   * Runs what an entry leads to. In a damaged recording calls may be in an order in which no program makes them: what fails then is
   * ERR_INVALID_ARG_VALUE, too, with the call.
   */
  within<R>(act: () => R): R {
    return orDamaged(act, () => this.#damaged())
  }

  #damaged(why?: string): Error {
    return invalidValue(`${this.path} is damaged at call ${this.#calls}${why === undefined ? '' : `: ${why}`}`)
  }

  #timedCall([definition, gap, length, stack = 0, more = NOTHING]: CallLine): TimedCall {
    const defined = this.#definitions[definition]
    if (defined === undefined) throw this.#damaged('the call has no definition')
    if (stack !== 0) defined.stack = stack
    const began = this.#now + gap
    this.#now = began + length
    const number = this.#calls
    this.#calls += 1
    const { call, stack: taken } = defined
    const text = taken === 0 ? '' : (this.#stacks[Math.abs(taken) - 1] ?? '')
    const exact = this.header.stacks === 'all' || taken > 0
    return { what: 'call', number, call, began, ended: this.#now, stack: text, exact, more }
  }

  #object(line: ObjectLine): Entry | undefined {
    if ('call' in line) this.#definitions.push({ call: line, stack: 0 })
    else if ('stack' in line) this.#stacks.push(line.stack)
    else if ('id' in line) return { what: 'stream', facts: line }
    else if ('bytes' in line) return { what: 'bytes', pointer: line.pointer, bytes: line.bytes }
    else if ('times' in line) return { what: 'times', each: (visit) => eachTime(line.times, visit) }
    else if ('end' in line) return this.#end(line)
    else {
      this.#definitions = []
      this.#stacks = []
    }
    return undefined
  }

  #end({ end, nanoseconds }: End): Entry {
    if (end !== this.#calls) throw invalidValue(`${this.path} is damaged: it has ${this.#calls} of ${end} calls`)
    this.isComplete = true
    this.#now = nanoseconds
    return { what: 'end' }
  }
}

function eachTime(times: readonly number[], visit: (call: number, start: number, end: number) => void): void {
  let call = 0
  let start = 0
  for (let at = 0; at + 2 < times.length; at += 3) {
    call += times[at] ?? 0
    start += times[at + 1] ?? 0
    visit(call, start, start + (times[at + 2] ?? 0))
  }
}

const isCall = (line: ObjectLine | CallLine): line is CallLine => Array.isArray(line)

const isHeader = (value: unknown): value is Header =>
  typeof value === 'object' && value !== null && 'recording' in value

function parsed(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The lines of a file. Of one that grows, undefined stands for its end, behind which more lines may come. */
function* linesOf(path: string, isGrowing: boolean): Generator<string | undefined, undefined> {
  const { openSync, readSync, closeSync } = process.getBuiltinModule('node:fs')
  const file = openSync(path, 'r')
  try {
    const decoder = new TextDecoder()
    const bytes = new Uint8Array(PIECE)
    // The pieces of a line that has not ended yet are joined once, so that a long line takes no longer for each of its pieces.
    let rest: string[] = []
    let restLength = 0
    for (;;) {
      const length = readSync(file, bytes)
      const lines = decoder.decode(bytes.subarray(0, length), { stream: length > 0 }).split('\n')
      const last = lines.pop() ?? ''
      const [first] = lines
      if (first !== undefined) {
        lines[0] = rest.join('') + first
        rest = []
        restLength = 0
      }
      yield* lines
      rest.push(last)
      restLength += last.length
      if (restLength > LONGEST_LINE) throw invalidValue(`${path} is damaged: a line is longer than any recorder writes`)
      if (length === 0 && !isGrowing) break
      if (length === 0) yield undefined
    }
    if (restLength > 0) yield rest.join('')
  } finally {
    closeSync(file)
  }
  return undefined
}
