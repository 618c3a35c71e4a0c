/**
 * Kernels, and instances of them, that macros make: a call of such a macro is replaced by what it stands for, on its own line, so that the
 * kernel is found where it is made. All other macros are left to the compiler.
 */
import { spaced, type Token, tokensOf } from './source-text.js'

interface Macro {
  readonly parameters: readonly string[]
  readonly body: readonly Token[]
}

const DEFINITION = /^\s*#\s*define\s+(\w+)\(([^)]*)\)([\s\S]*)$/
const UNDEFINITION = /^\s*#\s*undef\s+(\w+)/
/** A macro that stands for itself in another's text ends there. */
const MOST_NESTED = 16
const MARK = '__global__'

export class KernelMacros {
  /** Macros with parameters by their names; undefined for one that is defined in several ways, of which a condition decides. */
  readonly #macros = new Map<string, Macro | undefined>()

  /** Notes the macros of a file. */
  read(text: string): void {
    if (!text.includes('define')) return
    const undefined_ = new Set<string>()
    for (const { text: directive } of tokensOf(text).directives) {
      const [, gone] = UNDEFINITION.exec(directive) ?? []
      if (gone !== undefined) undefined_.add(gone)
      const [, name, list = '', body = ''] = DEFINITION.exec(directive.replace(/\\\r?\n/g, ' ')) ?? []
      if (name === undefined) continue
      const macro = { parameters: list.split(',').map((each) => each.trim()), body: tokensOf(body.trim()).tokens }
      const known = this.#macros.get(name)
      const isSame = known !== undefined && textsOf(known.body) === textsOf(macro.body)
      if (this.#macros.has(name) && !isSame) this.#macros.set(name, undefined)
      else this.#macros.set(name, macro)
    }
    // Of one that is defined twice it depends on the place which is meant.
    for (const name of undefined_) if (this.#definitions(text, name) > 1) this.#macros.set(name, undefined)
  }

  #definitions(text: string, name: string): number {
    return [...text.matchAll(new RegExp(`^[ \\t]*#[ \\t]*define[ \\t]+${name}\\(`, 'gm'))].length
  }

  /** The text with what calls of such macros stand for. Each line stays where it is. */
  expanded(text: string): string {
    const makers = this.#makers()
    if (makers.size === 0) return text
    const { tokens, closing } = tokensOf(text)
    let [made, from] = ['', 0]
    for (let at = 0; at < tokens.length; at++) {
      const { text: name, start } = tokens[at] ?? { text: '', start: 0 }
      const close = closing.get(at + 1)
      if (!this.#macros.has(name) || tokens[at + 1]?.text !== '(' || close === undefined) continue
      const list = tokens.slice(at + 2, close)
      if (!makers.has(name) && !list.some(({ text: each }) => makers.has(each))) continue
      const stands = this.#expand(name, argumentsIn(list), 0)
      const end = tokens[close]?.end ?? start
      if (stands === undefined || !stands.includes(MARK)) continue
      const lines = text.slice(start, end).split('\n').length - 1
      made += `${text.slice(from, start)}${stands}${'\n'.repeat(lines)}`
      from = end
      at = close
    }
    return made + text.slice(from)
  }

  /** Names of macros by which kernels are made. */
  #makers(): ReadonlySet<string> {
    const makers = new Set<string>()
    for (let before = -1; before < makers.size; ) {
      before = makers.size
      for (const [name, macro] of this.#macros)
        if (macro?.body.some(({ text }) => text === MARK || makers.has(text)) === true) makers.add(name)
    }
    return makers
  }

  #expand(name: string, given: readonly string[], depth: number): string | undefined {
    const macro = this.#macros.get(name)
    if (macro === undefined || depth === MOST_NESTED) return undefined
    const values = new Map(
      macro.parameters.map((parameter, index): [string, string] =>
        parameter.endsWith('...')
          ? [parameter === '...' ? '__VA_ARGS__' : parameter.slice(0, -3).trim(), given.slice(index).join(', ')]
          : [parameter, given[index] ?? ''],
      ),
    )
    let text = ''
    const { body } = macro
    for (let at = 0; at < body.length; at++) {
      const { text: word, start } = body[at] ?? { text: '', start: 0 }
      const isPasted = word === '#' && body[at + 1]?.text === '#'
      if (isPasted) {
        text = text.trimEnd()
        at++
        const next = body[at + 1]?.text ?? ''
        text += values.get(next) ?? next
        at++
        continue
      }
      const isBlank = start > (body[at - 1]?.end ?? 0)
      const following = body[at + 1]?.text ?? ''
      if (word === '#' && values.has(following)) {
        text += ` ${JSON.stringify(values.get(following))}`
        at++
      } else text += `${isBlank ? ' ' : ''}${values.get(word) ?? word}`
    }
    return this.#nested(text, depth + 1)
  }

  /** Other macros in what one stands for. */
  #nested(text: string, depth: number): string {
    const makers = this.#makers()
    const { tokens, closing } = tokensOf(text)
    let [made, from] = ['', 0]
    for (let at = 0; at < tokens.length; at++) {
      const { text: name, start } = tokens[at] ?? { text: '', start: 0 }
      const close = closing.get(at + 1)
      if (!makers.has(name) || tokens[at + 1]?.text !== '(' || close === undefined) continue
      const stands = this.#expand(name, argumentsIn(tokens.slice(at + 2, close)), depth)
      if (stands === undefined) continue
      made += text.slice(from, start) + stands
      from = tokens[close]?.end ?? start
      at = close
    }
    return made + text.slice(from)
  }
}

const textsOf = (tokens: readonly Token[]): string => spaced(tokens.map(({ text }) => text))

/** What stands between the parentheses of a macro's call, with commas between. Angle brackets are none to a macro. */
function argumentsIn(tokens: readonly Token[]): readonly string[] {
  const parts: string[] = ['']
  let depth = 0
  let end: number | undefined
  for (const { text, start, end: behind } of tokens) {
    if ('([{'.includes(text)) depth++
    else if (')]}'.includes(text)) depth--
    const blank = end !== undefined && start > end ? ' ' : ''
    if (text === ',' && depth === 0) parts.push('')
    else parts[parts.length - 1] = `${parts.at(-1)}${parts.at(-1) === '' ? '' : blank}${text}`
    end = behind
  }
  return parts
}
