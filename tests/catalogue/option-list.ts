/** All options of public calls, as the declarations of the package have them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const DECLARATIONS = fileURLToPath(new URL('../../src', import.meta.url))
/** TypeScript writes each signature on one line. */
const INTERFACE = /^ *(?:export )?interface (\w+)(?:<.*?>)?(?: extends ([\w, ]+))? \{$([\s\S]*?)^ *\}$/gm
/** The options of an interface and of one of several literals, on one line as all that is in parentheses. */
const UNION = /^export type (\w+) = (\w+) & \((.*)\);$/gm
/** A list of parameters that depends on a type. */
const PARAMETERS = /^export type (\w+)<.*?> = .*? \? \[(.*)\] : \[\];$/gm
const CLASS = /^(?:export )?(?:declare )?(?:abstract )?class (\w+).* \{$([\s\S]*?)^\}$/gm
const FUNCTION = /^export declare function (\w+)(\(.*\)|<.*\)): /gm
const METHOD = /^ +(static )?(?:protected )?(\w+)(?:<.*?>)?\((.*)\)(?:: .*)?;$/gm
const PROPERTY = /^ +readonly (\w+)\??: /gm
const LITERAL = /\{([^{}]*)\}/g
const LITERAL_PROPERTY = /readonly (\w+)\??: /g

const NOT_OPTIONS = /^(?:Shared|Device$|ViewConstructor$)/

interface OptionsType {
  readonly parents: readonly string[]
  readonly names: readonly string[]
}

/** As `Stream#record: external`, `new Event: timing`, or `fromDLPack: stream` of a function. */
export function publicOptions(): ReadonlySet<string> {
  const texts = readdirSync(DECLARATIONS, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.d.ts'))
    .map((path) => plain(readFileSync(join(DECLARATIONS, path), 'utf8')))
  const types = new Map<string, OptionsType>()
  for (const text of texts) {
    for (const [, name = '', parents = '', body = ''] of text.matchAll(INTERFACE)) {
      const names = [...body.matchAll(PROPERTY)].map(([, each = '']) => each)
      const isOptions = names.length > 0 || parents !== ''
      // Tokens of share(), and classes that get more members, are no options.
      if (isOptions && !NOT_OPTIONS.test(name)) types.set(name, { parents: parents.split(', '), names })
    }
  }
  for (const [, name = '', parent = '', body = ''] of texts.flatMap((text) => [...text.matchAll(UNION)])) {
    const names = new Set([...body.matchAll(LITERAL_PROPERTY)].map(([, each = '']) => each))
    types.set(name, { parents: [parent], names: [...names] })
  }
  for (const [, name = '', parameters = ''] of texts.flatMap((text) => [...text.matchAll(PARAMETERS)])) {
    types.set(name, { parents: parameters.match(/\b[A-Z]\w+/g) ?? [], names: [] })
  }
  const found = new Set<string>()
  const add = (call: string, parameters: string): void => {
    for (const name of namesIn(parameters, types)) found.add(`${call}: ${name}`)
  }
  for (const text of texts) {
    for (const [, name = '', parameters = ''] of text.matchAll(FUNCTION)) add(name, parameters)
    for (const [, name = '', body = ''] of text.matchAll(CLASS)) addMethods(name, body, add)
    // Methods that shortcuts.ts adds to a class.
    for (const [, name = '', , body = ''] of text.matchAll(INTERFACE)) addMethods(name, body, add)
  }
  return found
}

function addMethods(name: string, body: string, add: (call: string, parameters: string) => void): void {
  for (const [, isStatic, method = '', parameters = ''] of body.matchAll(METHOD)) {
    if (method === 'constructor') add(`new ${name}`, parameters)
    else add(`${name}${isStatic === undefined ? '#' : '.'}${method}`, parameters)
  }
}

function namesIn(parameters: string, types: ReadonlyMap<string, OptionsType>): readonly string[] {
  const literal = [...parameters.matchAll(LITERAL)].flatMap(([, body = '']) => [...body.matchAll(LITERAL_PROPERTY)])
  const named = [...new Set(parameters.match(/\b[A-Z]\w+/g))].flatMap((name) => namesOf(name, types))
  return [...literal.map(([, name = '']) => name), ...named]
}

function namesOf(name: string, types: ReadonlyMap<string, OptionsType>): readonly string[] {
  const { parents, names } = types.get(name) ?? { parents: [], names: [] }
  return [...names, ...parents.flatMap((parent) => namesOf(parent, types))]
}

/** Without comments, and each list of parameters on one line. */
const plain = (text: string): string =>
  text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/\([^()]*\)/g, (list) => list.replaceAll(/\s+/g, ' '))
