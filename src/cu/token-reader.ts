/** Reads parts of declarations and calls from the tokens of a file: what brackets enclose, and what lists of parameters and arguments have. */
import type { SourceParameter } from './found-in-sources.js'
import { type SourceTokens, spaced, type Token } from './source-text.js'
import { type Declaration, declarationOf, type TemplateParameter } from './template-arguments.js'

export class TokenReader {
  readonly tokens: readonly Token[]
  #angles: ReadonlyMap<number, number> | undefined

  constructor(
    private readonly text: string,
    readonly source: SourceTokens,
  ) {
    this.tokens = source.tokens
  }

  /** Whether a token is this text. */
  is(index: number, text: string): boolean {
    return this.tokens[index]?.text === text
  }

  /** The index of the token that closes a bracket; the index itself for another token. */
  closing(index: number): number {
    return this.source.closing.get(index) ?? index
  }

  /** The index behind what an angle bracket opens; `end` where nothing before it closes that. */
  behindAngles(index: number, end: number): number {
    this.#angles ??= anglesIn(this.source)
    const closing = this.#angles.get(index)
    return closing !== undefined && closing < end ? closing + 1 : end
  }

  /** The index behind the next ';', which lies in no brackets. */
  behindStatement(index: number, end: number): number {
    for (let at = index; at < end; at = this.closing(at) + 1) if (this.is(at, ';')) return at + 1
    return end
  }

  /** The index of the token at which a name such as 'reduce<float>' begins that stands before a '('. */
  nameStart(parameters: number): number {
    let at = parameters - 1
    if (this.is(at, '>')) {
      let depth = 0
      for (; at >= 0; at--) {
        if (this.is(at, '>')) depth++
        else if (this.is(at, '<') && --depth === 0) break
      }
      at--
    }
    return Math.max(0, at)
  }

  /** The index of the token at which the namespaces before a name begin. */
  qualified(name: number): number {
    let first = name
    while (this.is(first - 1, '::')) first -= /^[A-Za-z_]\w*$/.test(this.tokens[first - 2]?.text ?? '') ? 2 : 1
    return first
  }

  /**
   * The index of the '(' before the arguments of a launch, from the index of the kernel's name; undefined for a name that is not
   * launched.
   */
  launched(name: number): number | undefined {
    const isTripled = (at: number, mark: string): boolean => [at, at + 1, at + 2].every((each) => this.is(each, mark))
    const behind =
      this.is(name + 1, '<') && !isTripled(name + 1, '<') ? this.behindAngles(name + 1, this.tokens.length) : name + 1
    if (!isTripled(behind, '<')) return undefined
    for (let at = behind + 3; at < this.tokens.length && !this.is(at, ';'); at = this.closing(at) + 1)
      if (isTripled(at, '>')) return this.is(at + 3, '(') ? at + 3 : undefined
    return undefined
  }

  /** The texts of what stands between angle brackets. */
  listedTexts(open: number): readonly string[] {
    return this.listed(open).map((tokens) => spaced(tokens.map(({ text }) => text)))
  }

  /** What stands between angle brackets, with commas between. */
  listed(open: number): readonly (readonly Token[])[] {
    const parts: Token[][] = [[]]
    const behind = this.behindAngles(open, this.tokens.length)
    let depth = 0
    for (const token of this.tokens.slice(open + 1, behind - 1)) {
      if ('<('.includes(token.text)) depth++
      else if ('>)'.includes(token.text)) depth--
      if (token.text === ',' && depth === 0) parts.push([])
      else parts.at(-1)?.push(token)
    }
    return parts
  }

  /** What stands between parentheses, with commas between. */
  parts(open: number): readonly (readonly Token[])[] {
    const close = this.closing(open)
    const parts: Token[][] = [[]]
    let angles = 0
    for (let at = open + 1; at < close; at++) {
      const token = this.tokens[at]
      if (token === undefined) break
      if (token.text === '<') angles++
      else if (token.text === '>') angles--
      const behind = Math.max(at, this.closing(at))
      if (token.text === ',' && angles === 0) parts.push([])
      else parts.at(-1)?.push(...this.tokens.slice(at, behind + 1))
      at = behind
    }
    return parts
  }

  /** What the parameters of a function declare; undefined for one that is not understood. */
  declarations(parameters: number): readonly (Declaration | undefined)[] {
    return this.parts(parameters)
      .filter((tokens) => tokens.length > 0)
      .map(declarationOf)
  }

  /** The parameters of a function as they are written. */
  parameters(open: number): readonly SourceParameter[] {
    return this.parts(open)
      .filter((tokens) => tokens.length > 0 && !(tokens.length === 1 && tokens[0]?.text === 'void'))
      .map((tokens) => {
        const start = tokens[0]?.start ?? 0
        const text = this.text.slice(start, tokens.at(-1)?.end ?? start).replace(/\s+/g, ' ')
        return { name: nameIn(tokens), text, start }
      })
  }

  /** The parameters of the template whose declaration begins at a token. */
  templateParameters(at: number): readonly TemplateParameter[] {
    return this.listed(at + 1).map((tokens) => {
      const texts = tokens.map(({ text }) => text)
      const value = texts.indexOf('=')
      const own = value < 0 ? texts : texts.slice(0, value)
      return { name: own.at(-1) ?? '', kind: own.slice(0, -1), hasDefault: value >= 0 }
    })
  }
}

/** Returns, by the index of a token '<', the index of the '>' that closes it within the same brackets. */
function anglesIn({ tokens, closing }: SourceTokens): ReadonlyMap<number, number> {
  const found = new Map<number, number>()
  let open: number[] = []
  /** What is open around each pair of brackets, and where that ends. */
  const around: { readonly open: number[]; readonly end: number }[] = []
  for (const [index, { text }] of tokens.entries()) {
    const end = closing.get(index)
    if (end !== undefined) {
      around.push({ open, end })
      open = []
    } else if (index === around.at(-1)?.end) open = around.pop()?.open ?? []
    else if (text === '<') open.push(index)
    else if (text === '>') {
      const opening = open.pop()
      if (opening !== undefined) found.set(opening, index)
    }
  }
  return found
}

/** The name in a declaration of a parameter. */
function nameIn(tokens: readonly Token[]): string | undefined {
  const until = tokens.findIndex(({ text }) => text === '[' || text === '=')
  const own = until < 0 ? tokens : tokens.slice(0, until)
  const last = own.at(-1)?.text ?? ''
  const isType =
    own.length < 2 ||
    /^(?:const|volatile|unsigned|signed|char|bool|short|int|long|float|double|__restrict__|__restrict)$/.test(last)
  return isType || !/^[A-Za-z_]\w*$/.test(last) || own.at(-2)?.text === '::' ? undefined : last
}
