/** The edits of a file: what the compiler for the GPU gets in place of its text, and which place of the text one of what it gets was. */
import type { AddedText } from './found-in-sources.js'
import { INCLUDE } from './includes.js'
import type { SourcePosition, SourceTokens } from './source-text.js'

interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
  /** What the edit adds that the source can do without. */
  readonly added?: AddedText
}

/** The place in the source of something in the edited text. */
export interface Origin {
  readonly offset: number
  /** The probe or mark that it stands in. */
  readonly added: AddedText | undefined
}

export class EditedText {
  readonly #edits: Edit[] = []

  constructor(
    readonly text: string,
    private readonly source: SourceTokens,
  ) {}

  add(edit: Edit): void {
    this.#edits.push(edit)
  }

  /** The text with all edits. */
  edited(): string {
    let [text, at] = ['', 0]
    for (const { start, end, text: instead } of this.#edits.sort((a, b) => a.start - b.start)) {
      text += this.text.slice(at, start) + instead
      at = end
    }
    return text + this.text.slice(at)
  }

  /** The place in the text of one in the edited text. */
  originOf({ line, column }: SourcePosition): Origin {
    const lineStart = this.#lineStart(line)
    let left = column - 1
    let at = lineStart
    for (const { start, end, text, added } of this.#editsOf(line)) {
      const before = start - at
      if (left < before) break
      left -= before
      at = start
      if (left < text.length) return { offset: start, added }
      left -= text.length
      at = end
    }
    return { offset: Math.min(at + left, this.text.length), added: undefined }
  }

  /** The probes and marks that were added to a line. */
  addedIn(line: number): readonly AddedText[] {
    return this.#editsOf(line).flatMap(({ added }) => (added === undefined ? [] : [added]))
  }

  #lineStart(line: number): number {
    let start = 0
    for (let count = 1; count < line; count++) {
      const end = this.text.indexOf('\n', start)
      if (end < 0) return this.text.length
      start = end + 1
    }
    return start
  }

  /** The edits of a line that change its length: others are as long as what they replace. */
  #editsOf(line: number): readonly Edit[] {
    const start = this.#lineStart(line)
    const end = this.#lineStart(line + 1)
    const isLast = end === this.text.length
    return this.#edits.filter(
      (each) => each.start >= start && (each.start < end || isLast) && each.text.length !== each.end - each.start,
    )
  }

  /** A file has one name for the compiler, by which it knows that it has it. */
  renameHeaders(names: ReadonlyMap<string, string>): void {
    for (const { text, start } of this.source.directives) {
      const { 0: all, 1: quoted, 2: angled } = INCLUDE.exec(text) ?? []
      const name = names.get(quoted ?? angled ?? '')
      if (all === undefined || name === undefined || name === (quoted ?? angled)) continue
      this.#edits.push({ start, end: start + all.length, text: `#include "${name}"` })
    }
  }

  /** Replaces what is not for the GPU by spaces; preprocessor directives within stay. */
  blank(at: number, behind: number): void {
    const [start, end] = [this.source.tokens[at]?.start ?? 0, this.source.tokens[behind - 1]?.end ?? this.text.length]
    let from = start
    const kept = this.source.directives.filter((each) => each.start >= start && each.start < end)
    for (const { start: to, text } of [...kept, { start: end, text: '' }]) {
      this.#edits.push({ start: from, end: to, text: this.text.slice(from, to).replace(/[^\n]/g, ' ') })
      from = to + text.length
    }
  }
}
