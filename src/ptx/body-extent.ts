/** The end of the body of a function, found without reading its instructions. */

/** Braces, the beginnings of texts and comments, and declarations that are those of the module, though they stand in a body. */
const MARK = /[{}"#]|\/[/*]|(?<![\w$%:])\.(?:global|const|extern|visible|weak|common|file)\b/g

/**
 * The offset behind the brace that closes the body which begins with the brace at `begin`. Undefined for a body that has to be read at once, since it
 * is not closed, or declares what the whole module has.
 */
export function endOfBody(text: string, begin: number): number | undefined {
  let depth = 0
  MARK.lastIndex = begin
  for (let found = MARK.exec(text); found !== null; found = MARK.exec(text)) {
    switch (found[0]) {
      case '{':
        depth++
        break
      case '}':
        depth--
        if (depth === 0) return MARK.lastIndex
        break
      case '#':
      case '//':
        MARK.lastIndex = endOfLine(text, MARK.lastIndex)
        break
      case '"': {
        const end = text.indexOf('"', MARK.lastIndex)
        // A quote that its line does not close is a mistake, which the parser reports.
        if (end < 0 || end > endOfLine(text, found.index)) return undefined
        MARK.lastIndex = end + 1
        break
      }
      case '/*': {
        const end = text.indexOf('*/', MARK.lastIndex)
        if (end < 0) return undefined
        MARK.lastIndex = end + 2
        break
      }
      default:
        return undefined
    }
  }
  return undefined
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end < 0 ? text.length : end
}

/** Counts the lines of a text from a place on, up to offsets that mostly grow. */
export class LineCounter {
  /** The beginning of the line that was found last, and its end if that is known. */
  #begin: number
  #end = -1
  #line: number

  /**
   * @param from The least offset that is asked for
   * @param first The line of that offset
   */
  constructor(
    private readonly text: string,
    private readonly from = 0,
    private readonly first = 1,
  ) {
    this.#begin = from
    this.#line = first
  }

  /** The number of the line that has this offset. */
  at(offset: number): number {
    if (offset < this.#begin) {
      this.#begin = this.from
      this.#end = -1
      this.#line = this.first
    }
    for (;;) {
      // Each line is looked for once, and not once for each offset in it.
      if (this.#end < this.#begin) this.#end = endOfLine(this.text, this.#begin)
      if (this.#end >= offset) return this.#line
      this.#begin = this.#end + 1
      this.#line++
    }
  }
}
