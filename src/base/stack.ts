/** Stacks as text, and which of their lines are the program's own. */
import { pathOf, process } from '#platform'
import { printable } from './printable.js'

/** This file within the folder of the package's code, as stacks name it: in a bundle only where its source map is used. */
const OWN_FILE = 'base/stack.js'
const ASYNC = 'at async '
/** Calls inside the library are seldom more than ten deep; an exploration's own callers lie between too. */
const FRAMES = 24
const FRAMES_OF_TWO = 40

interface StackFrame {
  /** As V8 writes it. */
  readonly line: string
  readonly path: string
  readonly row: string
  readonly column: string
  /** Undefined for a built-in function, which has no path. */
  readonly owner: 'program' | 'library' | 'node' | undefined
}

/** Where a call comes from that is made later, when the program's own lines are not on the stack any more. */
let origin = ''

/** Returns a function that runs others as if they were called from here. */
export function calledFromHere(): <R>(fn: () => R) => R {
  const here = takeStack(FRAMES)
  return (fn) => {
    const outer = origin
    origin = here
    try {
      return fn()
    } finally {
      origin = outer
    }
  }
}

/**
 * The stack of the function that calls this, as text with a first line that is no frame; so many frames of it at most. Given
 * `above`, a function that is on it, the stack of its caller: every frame costs a microsecond.
 */
export function takeStack(frames: number, above: (...args: never[]) => unknown = takeStack): string {
  // Without a prototype: Deno would ask a program's own for a name and a message.
  const holder = { __proto__: null, stack: '' }
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = frames
  Error.captureStackTrace(holder, above)
  Error.stackTraceLimit = limit
  // As text: a stack that is kept as it is keeps the objects reachable whose methods are in it.
  return origin === '' ? holder.stack : `${holder.stack}\n${origin}`
}

/** The lines of a stack that are the program's own, innermost first. */
export function programLines(stack: string): string[] {
  const lines: string[] = []
  for (const { line, owner } of framesOf(stack))
    if (owner === 'program' || owner === undefined) lines.push(printable(line))
  return lines
}

/** The innermost place in the program that led to this call, as 'path:row:column'; empty where there is none. */
export function callSite(): string {
  for (const { owner, path, row, column } of framesOf(takeStack(FRAMES))) {
    if (owner === 'program') return printable(`${path}:${row}:${column}`)
  }
  return ''
}

/** The same as 'file:row' or 'file:row (from file:row)'; undefined where there is none, as in the event loop. */
export function shortCallSite(): string | undefined {
  const here = `${process.cwd()}/`
  const sites: string[] = []
  for (const { line, path, row, owner } of framesOf(takeStack(FRAMES_OF_TWO))) {
    // What runs the program is no part of it.
    if (line.startsWith(ASYNC)) break
    if (owner === 'program') {
      sites.push(printable(`${path.startsWith(here) ? path.slice(here.length) : path}:${row}`))
    } else if (owner === 'library' && sites.length > 0) break
  }
  const [innermost, caller] = sites
  return innermost === undefined || caller === undefined ? innermost : `${innermost} (from ${caller})`
}

/** One by one: to read a frame costs a microsecond, and most callers want the innermost. */
function* framesOf(stack: string): Generator<StackFrame> {
  for (const each of stack.split('\n')) {
    const line = each.trim()
    if (line === each || !line.startsWith('at ')) continue
    const { file, row, column } = placeOf(line)
    const owner = ownerOf(file)
    const path = owner === 'program' && file.startsWith('file:') ? pathOf(file) : file
    yield { line, path, row, column, owner }
  }
}

/**
 * Of `at name (path:row:column)`, or the same without a name; a built-in function has no path. By hand: where the stack is
 * about to run over, V8 ends the process when it compiles a regular expression.
 */
function placeOf(line: string): { readonly file: string; readonly row: string; readonly column: string } {
  const begin = line.endsWith(')') ? line.lastIndexOf('(') + 1 : line.startsWith(ASYNC) ? ASYNC.length : 'at '.length
  const place = line.slice(begin, line.endsWith(')') ? -1 : undefined)
  const atColumn = place.lastIndexOf(':')
  const atRow = place.lastIndexOf(':', atColumn - 1)
  if (atRow < 1 || place.includes(')')) return { file: '', row: '', column: '' }
  return { file: place.slice(0, atRow), row: place.slice(atRow + 1, atColumn), column: place.slice(atColumn + 1) }
}

function ownerOf(file: string): StackFrame['owner'] {
  if (!(file.startsWith('/') || file.startsWith('node:') || file[1] === ':' || file.includes('://'))) return undefined
  if (file.startsWith('node:')) return 'node'
  library ??= libraryIn(takeStack(1))
  const isLibrary = library !== '' && file.startsWith(library)
  return isLibrary ? 'library' : 'program'
}

/** The folder of the package's code as stacks name it, empty in a bundle whose lines are its own; asked for when it is needed. */
let library: string | undefined

/** Of a stack whose innermost frame is in this file. */
function libraryIn(stack: string): string {
  const { file } = placeOf(stack.split('\n')[1]?.trim() ?? '')
  return file.endsWith(`/${OWN_FILE}`) ? file.slice(0, -OWN_FILE.length) : ''
}
