/** Mistakes in CUDA C++, with the place in the source, as bundlers and terminals show them. */
import { readFileSync } from 'node:fs'
import { stateError } from '../foundation/base/errors.js'
import type { SourcePosition } from './source-text.js'

/** A mistake in a source of CUDA C++, or a kernel of it that cannot be launched from JavaScript. */
export interface CuDiagnostic {
  /** The file, absolute. */
  readonly file: string
  /** The line, counted from 1. */
  readonly line: number
  /** The column, counted from 1; 0 where the compiler names none. */
  readonly column: number
  /** What is wrong, and the way out if there is one. */
  readonly message: string
  /** The lines around the place, with a mark below it. */
  readonly frame: string
}

/** The error of a source of CUDA C++ that does not compile. Its message has each place with a code frame. */
export interface CuError extends Error {
  /** The code of the error, which is always this. */
  readonly code: string
  /** Each mistake with its place, in the order of the compiler. */
  readonly diagnostics: readonly CuDiagnostic[]
  /** The files of the project that it includes, absolute: one of them may be to blame. */
  readonly includes: readonly string[]
}

export const isCuError = (error: unknown): error is CuError =>
  error instanceof Error && 'diagnostics' in error && 'includes' in error

export function diagnostic(file: string, text: string, at: SourcePosition, message: string): CuDiagnostic {
  return { file, ...at, message, frame: frameOf(text, at) }
}

/** @throws always: ERR_COMPILATION, a CuError */
export function refuse(
  title: string,
  diagnostics: readonly CuDiagnostic[],
  includes: readonly string[],
  note = '',
): never {
  const places = diagnostics.map(({ file, line, column, message, frame }) =>
    `${file}:${line}:${column}: ${message}\n${frame}`.trimEnd(),
  )
  throw Object.assign(stateError('ERR_COMPILATION', [title, ...places, ...(note === '' ? [] : [note])].join('\n\n')), {
    diagnostics,
    includes,
  })
}

const AROUND = 2
const TAB = '    '

/** The lines around a place of the text, for a message; empty for a file that cannot be read. */
function frameOf(text: string, { line, column }: SourcePosition): string {
  if (text === '') return ''
  const lines = text.split('\n')
  const [from, to] = [Math.max(1, line - AROUND), Math.min(lines.length, line + AROUND)]
  const width = `${to}`.length
  const shown: string[] = []
  for (let number = from; number <= to; number++) {
    const content = (lines[number - 1] ?? '').replace(/\r$/, '')
    // A terminal shows tabs in widths of its own, and messages have them escaped.
    const spaced = content.replaceAll('\t', TAB)
    shown.push(`${number === line ? '>' : ' '} ${`${number}`.padStart(width)} | ${spaced}`.trimEnd())
    if (number !== line || column < 1) continue
    shown.push(
      `  ${' '.repeat(width)} | ${content
        .slice(0, column - 1)
        .replaceAll('\t', TAB)
        .replace(/./g, ' ')}^`,
    )
  }
  return shown.join('\n')
}

const ENTRY =
  /^(?<file>[^\n]*?)\((?<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: (?<message>[^\n]*)(?<rest>(?:\n(?![^\n]*?\(\d+\): |\d+ errors? )[^\n]*)*)/gm

/** What the compiler finds missing when the source is over, and where that which needs it begins. */
const AT_END =
  /^At end of source: error(?: #\S+)?: (?<message>[^\n]*)(?:\n[^\n]*\((?<line>\d+)\): note[^\n]*: (?<begin>[^\n]*))?/gm

/**
 * The mistakes that the compiler's log has.
 * @param main The file that is compiled.
 * @param fileOf The file on this machine for a name in the log.
 */
export function diagnosticsIn(log: string, main: string, fileOf: (name: string) => string): readonly CuDiagnostic[] {
  const atEnd = [...log.matchAll(AT_END)].map(({ groups = {} }) => {
    const { message = '', line, begin } = groups
    const text = textOf(main)
    const lines = text.trimEnd().split('\n')
    const at = { line: lines.length, column: Math.max(1, lines.at(-1)?.length ?? 1) }
    return diagnostic(main, text, at, begin === undefined ? message : `${message} ${begin} of line ${line}`)
  })
  return [...entriesIn(log, fileOf), ...atEnd]
}

function entriesIn(log: string, fileOf: (name: string) => string): readonly CuDiagnostic[] {
  return [...log.matchAll(ENTRY)].map(({ groups = {} }) => {
    const { file: name = '', message = '', rest = '' } = groups
    const file = fileOf(name)
    const lines = rest.split('\n')
    const mark = lines.findIndex((each) => /^\s*\^\s*$/.test(each))
    // The compiler shows the line with two spaces before it.
    const column = mark < 0 ? 0 : Math.max(1, (lines[mark]?.indexOf('^') ?? 1) - 1)
    const more = lines
      .slice(0, mark < 0 ? lines.length : mark - 1)
      .map((each) => each.trim())
      .filter((each) => each !== '' && !/^\d+ errors? detected|^Compilation terminated/.test(each))
    return diagnostic(file, textOf(file), { line: Number(groups['line']), column }, [message, ...more].join('\n'))
  })
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
