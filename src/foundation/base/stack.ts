/** Stack traces as text, and which of their lines belong to the program. */
import { fileURLToPath, process } from './node-modules.js'
import { printable } from './printable.js'

/**
 * The path of this file within the folder of the package's code, as stack traces name it. A bundle has it only in its source map.
 */
const OWN_FILE = 'foundation/base/stack.js'
/** `at name (path:row:column)`, or the same without a name. A built-in function has no path. */
const PLACE = /^at (?:async )?(?:.* \()?([^()]+):(\d+):(\d+)\)?$/
/** `at name (path:row)`: Python, in the stacks of a whole process. */
const PLACE_IN_PYTHON = /^at .* \((?![^()]*:\d+:\d+\)$)([^()]+):(\d+)\)$/
/** `at name (file+offset)`: compiled code, in the same stacks. */
const IN_COMPILED_CODE = /^at .* \([^()]+\+0x[0-9a-f]+\)$/
/** Calls inside the library are seldom more than ten deep; the callers of an exploration come on top of them. */
const FRAMES = 24
const FRAMES_OF_TWO = 40

interface StackFrame {
  /** A line of a stack, as V8 writes it. */
  readonly line: string
  readonly path: string
  readonly row: string
  readonly column: string
  /** The code to which the frame belongs; undefined for a built-in function, which has no path. */
  readonly owner: 'program' | 'package' | 'library' | 'node' | undefined
}

/** The stack that later calls are attributed to, when the program's own lines are no longer on theirs. */
let origin = ''

/** Returns a function that runs other functions as if they were called from here. */
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
 * The stack of the caller as text, whose first line is no frame, with at most so many frames: each costs a microsecond.
 * Given `above`, a function that is on the stack, it begins with the caller of that function.
 */
export function takeStack(frames: number, above: (...args: never[]) => unknown = takeStack): string {
  const holder = { stack: '' }
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = frames
  Error.captureStackTrace(holder, above)
  Error.stackTraceLimit = limit
  // Text only: a stack object keeps the objects reachable whose methods are on it.
  return origin === '' ? holder.stack : `${holder.stack}\n${origin}`
}

/**
 * Makes the error of a mistake in a call: its stack begins at the program's line that made the call, as that of a built-in
 * function does. The text is made at once, which costs some ten microseconds. A stack without a line of the program stays whole.
 */
export function fromCaller<E extends Error>(make: () => E): E {
  const { stackTraceLimit: limit } = Error
  // Not writable where the intrinsics are frozen.
  if (typeof limit !== 'number' || !Reflect.set(Error, 'stackTraceLimit', limit + FRAMES)) return make()
  let error: E
  try {
    error = make()
    shortenStack(error, limit)
  } finally {
    Error.stackTraceLimit = limit
  }
  return error
}

function shortenStack(error: Error, limit: number): void {
  // The program may format stacks in a way of its own.
  const stack: unknown = error.stack
  const head = `${error.name}: ${error.message}\n`
  if (typeof stack !== 'string' || !stack.startsWith(head)) return
  const lines = stack.slice(head.length).split('\n')
  let own = 0
  for (const [index, line] of lines.entries()) {
    const owner = ownerOfLine(line)
    if (owner === 'library') own = index + 1
    // A built-in function, such as Array.map(), has no path, and runs for the one that called it.
    else if (owner !== undefined) break
  }
  const begin = own < lines.length ? own : 0
  error.stack = head + lines.slice(begin, begin + limit).join('\n')
}

/**
 * The lines of a stack that belong to the program, innermost first. Lines of installed packages, such as those of a test runner, are left
 * out, unless there are no others: then the program is one of them.
 */
export function programLines(stack: string): string[] {
  const lines: string[] = []
  const all: string[] = []
  // Built-in functions, such as Array.map(), belong to those that call them.
  let builtIn: string[] = []
  for (const { line, owner } of framesOf(stack)) {
    if (owner === undefined) builtIn.push(printable(line))
    else {
      if (owner !== 'package') lines.push(...builtIn)
      all.push(...builtIn)
      builtIn = []
      if (owner === 'program') lines.push(printable(line))
      if (owner === 'program' || owner === 'package') all.push(printable(line))
    }
  }
  lines.push(...builtIn)
  all.push(...builtIn)
  return lines.length > 0 ? lines : all
}

/** Whether no line of a stack belongs to the program: packages, such as PyTorch, made the call for themselves. */
export function isOfPackages(stack: string): boolean {
  for (const { owner } of framesOf(stack)) if (owner === 'program') return false
  return true
}

/** The innermost place in the program that led to this call, as 'path:row:column'; empty if there is none. */
export function callSite(): string {
  let inPackage = ''
  for (const { owner, path, row, column } of framesOf(takeStack(FRAMES))) {
    if (owner === 'program') return printable(`${path}:${row}:${column}`)
    if (owner === 'package' && inPackage === '') inPackage = printable(`${path}:${row}:${column}`)
  }
  return inPackage
}

/** What is looked at first where the library's own calls are left out: mostly the two places are among the innermost. */
const FRAMES_OF_CALLER = 6

/**
 * The innermost place as 'file:row' or 'file:row (from file:row)'; undefined if there is none, as in the event loop. Given the function that
 * the program has called, the calls inside the library cost nothing: otherwise they are most of the stack.
 */
export function shortCallSite(called?: (...args: never[]) => unknown): string | undefined {
  if (called !== undefined && origin === '') {
    const { site, isFinal } = siteIn(takeStack(FRAMES_OF_CALLER, called), FRAMES_OF_CALLER)
    if (site !== undefined && isFinal) return site
  }
  return siteIn(takeStack(FRAMES_OF_TWO), FRAMES_OF_TWO).site
}

/** The place in a stack of at most so many frames, and whether it would be the same with more of them. */
function siteIn(stack: string, most: number): { readonly site: string | undefined; readonly isFinal: boolean } {
  const here = `${process.cwd()}/`
  const sites: string[] = []
  const inPackages: string[] = []
  let frames = 0
  let isFinal = false
  for (const { line, path, row, owner } of framesOf(stack)) {
    frames += 1
    // Frames beyond the first asynchronous one belong to what runs the program.
    isFinal = line.startsWith('at async ') || (owner === 'library' && sites.length > 0)
    if (isFinal) break
    if (owner === 'program' || owner === 'package') {
      const site = printable(`${path.startsWith(here) ? path.slice(here.length) : path}:${row}`)
      if (owner === 'program') sites.push(site)
      else inPackages.push(site)
    }
    isFinal = sites.length === 2
    if (isFinal) break
  }
  const [innermost, caller] = sites.length > 0 ? sites : inPackages
  const site = innermost === undefined || caller === undefined ? innermost : `${innermost} (from ${caller})`
  return { site, isFinal: isFinal || frames < most }
}

/** The place in Python that a line of a stack names; undefined for a line of another language. */
export function placeInPython(line: string): { readonly path: string; readonly row: number } | undefined {
  const [, path, row] = PLACE_IN_PYTHON.exec(line) ?? []
  return path === undefined ? undefined : { path, row: Number(row) }
}

/** Whether a line of a stack is of compiled code, C++ mostly, of which only the file is known. */
export const isCompiled = (line: string): boolean => IN_COMPILED_CODE.test(line)

/** The place that a line of a stack names; undefined for a built-in function. */
export function placeOf(
  line: string,
): { readonly path: string; readonly row: number; readonly column: number } | undefined {
  for (const { path, row, column, owner } of framesOf(`    ${line}`)) {
    if (owner !== undefined && path !== '') return { path, row: Number(row), column: Number(column) }
  }
  return undefined
}

/** A generator, since reading a frame costs a microsecond and most callers want only the innermost. */
function* framesOf(stack: string): Generator<StackFrame> {
  for (const each of stack.split('\n')) {
    const line = each.trim()
    if (line === each || !line.startsWith('at ')) continue
    const [, file = '', row = '', column = ''] = PLACE.exec(line) ?? []
    const owner = file === '' ? ownerInPython(line) : ownerOf(file)
    const path = owner === 'program' || owner === 'package' ? pathOf(file) : file
    yield { line, path, row, column, owner }
  }
}

/**
 * The path of a file's URL. On Windows a URL that names no drive has no path: a program, or its source map, may contain anything.
 */
function pathOf(file: string): string {
  if (!file.startsWith('file:')) return file
  try {
    return fileURLToPath(file)
  } catch {
    return file
  }
}

const ownerOfLine = (line: string): StackFrame['owner'] => ownerOf(PLACE.exec(line.trim())?.[1] ?? '')

function ownerOf(file: string): StackFrame['owner'] {
  // Deno's own modules are such as ext:deno_node/internal/timers.mjs.
  if (/^(node|ext):/.test(file)) return 'node'
  if (!(file.startsWith('/') || file[1] === ':' || file.includes('://'))) return undefined
  library ??= libraryIn(takeStack(1))
  if (library !== '' && file.startsWith(library)) return 'library'
  return PACKAGES.test(file) ? 'package' : 'program'
}

/** A folder into which package managers put packages. */
const PACKAGES = /[\\/]node_modules[\\/]/
/** Vite's development server has packages in files apart from the program's. */
const SERVED = /^.*\/\.vite\/deps\/(?=[^/]*$)/

/** The folders of Python's packages and of its own modules, its modules without a file, and the Python of this library. */
const PYTHON_PACKAGES = /\/(?:site|dist)-packages\/|\/lib\/python3|^<(?:frozen |cuda-streams>)/

/** The owner of a line that is not JavaScript's. */
function ownerInPython(line: string): StackFrame['owner'] {
  const place = placeInPython(line)
  if (place === undefined) return undefined
  return PYTHON_PACKAGES.test(place.path) ? 'package' : 'program'
}

/** The folder of the package's code as stack traces name it; empty in a bundle, whose lines all belong to the program. */
let library: string | undefined

/** Takes the folder from a stack whose innermost frame is in this file. */
function libraryIn(stack: string): string {
  const [, file = ''] = PLACE.exec(stack.split('\n')[1]?.trim() ?? '') ?? []
  return file.endsWith(`/${OWN_FILE}`) ? file.slice(0, -OWN_FILE.length) : (SERVED.exec(file)?.[0] ?? '')
}
