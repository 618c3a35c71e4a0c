/** CUDA C++ as text: tokens without comments and preprocessor directives, each with its offset. */

/** A position in a source, counted from 1, as compilers count. */
export interface SourcePosition {
  readonly line: number
  readonly column: number
}

export function positionOf(text: string, offset: number): SourcePosition {
  const before = text.slice(0, offset)
  const lineStart = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: offset - lineStart + 1 }
}

export interface Token {
  readonly text: string
  readonly start: number
  readonly end: number
}

export interface Directive {
  readonly text: string
  readonly start: number
}

export interface SourceTokens {
  readonly tokens: readonly Token[]
  /** The index of the token that closes a '(', '[' or '{', by the index of that token. */
  readonly closing: ReadonlyMap<number, number>
  /** Lines that begin with '#', with their continuations. */
  readonly directives: readonly Directive[]
  /** Whether each bracket has its partner. Branches of `#if` may each open what both close. */
  readonly balanced: boolean
}

/** Tokens as people write them: blanks only between words. */
export const spaced = (texts: readonly string[]): string =>
  texts.reduce((text, next) => (/\w$/.test(text) && /^\w/.test(next) ? `${text} ${next}` : text + next), '')

/** The text without comments and ends of lines, which would move what stands behind it in a file. */
export function onOneLine(text: string): string {
  if (!text.includes('\n')) return text
  const { tokens } = tokensOf(text)
  const pieces = tokens.map(({ text: piece, start }, index) =>
    start > (tokens[index - 1]?.end ?? 0) ? ` ${piece}` : piece,
  )
  return pieces.join('').replaceAll('\n', ' ').trim()
}

const PIECE =
  /(?<blank>\s+|\/\/(?:\\\r?\n|[^\n])*|\/\*[\s\S]*?(?:\*\/|$))|(?<raw>\bR"(?<delimiter>[^(\s]*)\([\s\S]*?(?:\)\k<delimiter>"|$))|(?<literal>"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?)|(?<word>[A-Za-z_]\w*)|(?<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)|(?<mark>::|->|[\s\S])/y
const DIRECTIVE = /[ \t]*#(?:\\\r?\n|\/\*[\s\S]*?(?:\*\/|$)|[^\n])*/y
const OPENING = '([{'
const CLOSING = ')]}'

export function tokensOf(text: string): SourceTokens {
  const tokens: Token[] = []
  const directives: Directive[] = []
  const closing = new Map<number, number>()
  const open: number[] = []
  let balanced = true
  let at = 0
  let atLineStart = true
  while (at < text.length) {
    if (atLineStart) {
      DIRECTIVE.lastIndex = at
      const directive = DIRECTIVE.exec(text)
      if (directive !== null) {
        directives.push({ text: directive[0], start: at })
        at += directive[0].length
        atLineStart = false
        continue
      }
    }
    PIECE.lastIndex = at
    const { 0: piece = text[at] ?? '', groups = {} } = PIECE.exec(text) ?? {}
    if (groups['blank'] === undefined) {
      const index = tokens.length
      if (OPENING.includes(piece)) open.push(index)
      else if (CLOSING.includes(piece)) {
        const opener = open.pop()
        const matches = opener !== undefined && OPENING.indexOf(tokens[opener]?.text ?? '') === CLOSING.indexOf(piece)
        if (matches) closing.set(opener, index)
        else balanced = false
      }
      tokens.push({ text: piece, start: at, end: at + piece.length })
      atLineStart = false
    } else if (piece.includes('\n')) atLineStart = true
    at += piece.length
  }
  return { tokens, closing, directives, balanced: balanced && open.length === 0 }
}

/** Comments that stand directly above a declaration, without their marks; empty if there are none. */
export function commentAbove(text: string, offset: number): string {
  const before = text.slice(0, offset).trimEnd()
  const gap = text.slice(before.length, offset)
  if (gap.split('\n').length > 2) return ''
  const block = /\/\*\*?((?:(?!\*\/)[\s\S])*)\*\/$/.exec(before)
  if (block !== null) return (block[1] ?? '').replace(/^\s*\*? ?/gm, '').trim()
  const lines: string[] = []
  for (const line of before.split('\n').reverse()) {
    const comment = /^\s*\/\/+ ?(.*)$/.exec(line)
    if (comment === null) break
    lines.unshift(comment[1] ?? '')
  }
  return lines.join('\n').trim()
}
