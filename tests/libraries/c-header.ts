/** What a C library's header says: prototypes by name, enumerators, macros, and where a struct has its members. */
import { readFileSync } from 'node:fs'

export class CHeader {
  readonly path: string
  readonly #text: string

  constructor(path: string) {
    this.path = path
    this.#text = readFileSync(path, 'utf8')
      .replaceAll(/\/\*[\s\S]*?\*\//g, ' ')
      .replaceAll(/\/\/[^\n]*/g, ' ')
      .replaceAll(/\\\r?\n/g, ' ')
  }

  /** The types of a function's result and parameters, such as 'int (const void*, size_t)'; undefined where it is not declared. */
  prototype(name: string): string | undefined {
    const found = new RegExp(`\\b(\\w+)\\s+(?:[A-Z]+API\\s+)?${name}\\s*\\(([^;{]*?)\\)\\s*;`).exec(this.#text)
    return found === null ? undefined : typesOf(found[1] ?? '', found[2] ?? '')
  }

  /** The value of an enumerator that is written with it. */
  enumerator(name: string): number | undefined {
    const value = new RegExp(`\\b${name}\\s*=\\s*(-?\\w+)`).exec(this.#text)?.[1]
    return value === undefined ? undefined : Number(value)
  }

  macro(name: string): number | undefined {
    const value = new RegExp(`^[ \\t]*#define[ \\t]+${name}[ \\t]+(\\w+)`, 'm').exec(this.#text)?.[1]
    return value === undefined ? undefined : Number(value)
  }

  /** The members of a `typedef struct ... name`, each with its type, in their order. */
  members(name: string): readonly string[] {
    const body = new RegExp(`typedef\\s+struct\\s*\\w*\\s*\\{([^{}]*)\\}\\s*${name}\\s*;`).exec(this.#text)?.[1] ?? ''
    return body
      .split(';')
      .map((member) => member.replaceAll(/\s+/g, ' ').trim())
      .filter((member) => member !== '')
  }
}

/** The same of a row of a ledger. */
export function writtenTypes(c: string): { readonly name: string; readonly types: string } {
  const match = /^(\w+) (\w+)\((.*)\)$/s.exec(c)
  if (match === null) throw new Error(`'${c}' is no prototype`)
  const [, result = '', name = '', list = ''] = match
  return { name, types: typesOf(result, list) }
}

function typesOf(result: string, list: string): string {
  const parameters = list.trim() === '' || list.trim() === 'void' ? [] : list.split(',')
  const types = parameters.map((parameter) => {
    const text = parameter
      .replaceAll(/\s+/g, ' ')
      .replaceAll(/\s*\*\s*/g, '* ')
      .trim()
    // The last word is the parameter's name; what is left of it is the type.
    return text.replace(/\s*\b\w+$/, '').trim()
  })
  return `${result} (${types.join(', ')})`
}
