/**
 * Arguments of a template that a call does not name, since the types of its arguments say them: `scale<<<grid, block>>>(x, n)` with
 * `float *x` is `scale<float>`. As much of C++ as is certain from the text of one function: where a type is not known, nothing is deduced.
 */
import { memoize } from '../foundation/base/memoize.js'
import { spaced, type Token } from './source-text.js'

/** A type as far as it matters to a template. */
export interface CppType {
  /** The words of the type, such as ['unsigned', 'int'] or ['Complex', '<', 'float', '>']. */
  readonly base: readonly string[]
  /** Whether what all pointers lead to is const. */
  readonly isConst: boolean
  readonly pointers: number
  readonly isReference: boolean
  readonly isArray: boolean
}

export interface Declaration {
  readonly type: CppType
  /** The parameter's name; undefined for a parameter without one. */
  readonly name: string | undefined
}

/** A parameter of a template. */
export interface TemplateParameter {
  readonly name: string
  /** The words before the parameter's name, such as ['typename'] or ['int']. */
  readonly kind: readonly string[]
  readonly hasDefault: boolean
}

/** Whether it stands for a type. */
export const isType = ({ kind }: TemplateParameter): boolean => kind.includes('typename') || kind.includes('class')

/** What variables of a function are; undefined for those whose type is not certain. */
export type Variables = ReadonlyMap<string, CppType | undefined>

const BUILT_IN = /^(?:unsigned|signed|char|bool|short|int|long|float|double|void)$/
const SPECIFIERS =
  /^(?:const|volatile|static|constexpr|register|inline|extern|thread_local|struct|class|enum|typename|__restrict__|__restrict|restrict)$/
const QUALIFIERS = /^(?:const|volatile|__restrict__|__restrict|restrict)$/
/** Words that begin no declaration. */
const STATEMENTS =
  /^(?:return|delete|throw|goto|else|case|new|using|typedef|if|for|while|do|switch|break|continue|default|sizeof|template|public|private|protected|co_return|co_await|co_yield|asm|__asm__|static_assert|namespace|try|catch|operator|this)$/
const WORD = /^[A-Za-z_]\w*$/
const SHORTER: Readonly<Record<string, string>> = {
  unsigned: 'unsigned int',
  signed: 'int',
  'signed int': 'int',
  'short int': 'short',
  'unsigned short int': 'unsigned short',
  'long int': 'long',
  'unsigned long int': 'unsigned long',
  'long long int': 'long long',
  'unsigned long long int': 'unsigned long long',
}

/** Returns, by the index of a '<', the index of the '>' that closes it within the same statement. It is found once for each text. */
const anglesOf = memoize((texts: readonly string[]): ReadonlyMap<number, number> => {
  const found = new Map<number, number>()
  let open: number[] = []
  for (const [index, text] of texts.entries()) {
    if (text === '<') open.push(index)
    else if (text === ';' || text === '{' || text === '}') open = []
    else if (text === '>') {
      const opening = open.pop()
      if (opening !== undefined) found.set(opening, index)
    }
  }
  return found
})

/** The index behind what an angle bracket opens; undefined where it opens nothing. */
function behindAngles(texts: readonly string[], open: number): number | undefined {
  const closing = anglesOf(texts).get(open)
  return closing === undefined ? undefined : closing + 1
}

/** The type that begins at a word, without its declarator's marks. */
function baseAt(
  texts: readonly string[],
  from: number,
): (Pick<CppType, 'base' | 'isConst'> & { next: number }) | undefined {
  let at = from
  let isConst = false
  const base: string[] = []
  const specifiers = (): void => {
    for (; SPECIFIERS.test(texts[at] ?? ''); at++) isConst ||= texts[at] === 'const' || texts[at] === 'constexpr'
  }
  specifiers()
  while (BUILT_IN.test(texts[at] ?? '')) {
    base.push(texts[at] ?? '')
    at++
    specifiers()
  }
  if (base.length === 0) {
    if (texts[at] === '::') at++
    for (;;) {
      const word = texts[at] ?? ''
      if (!WORD.test(word) || STATEMENTS.test(word)) return undefined
      base.push(word)
      at++
      if (texts[at] === '<') {
        const behind = behindAngles(texts, at)
        if (behind === undefined) return undefined
        base.push(...texts.slice(at, behind))
        at = behind
      }
      if (texts[at] !== '::') break
      base.push('::')
      at++
    }
    specifiers()
  }
  const text = base.join(' ')
  return { base: (SHORTER[text] ?? text).split(' '), isConst, next: at }
}

/** What stands between the type and what ends the declaration: marks, a name and brackets. */
function declaratorAt(
  texts: readonly string[],
  from: number,
  { base, isConst }: Pick<CppType, 'base' | 'isConst'>,
): (Declaration & { next: number }) | undefined {
  let [at, pointers, isReference, isArray] = [from, 0, false, false]
  for (; /^[*&]$/.test(texts[at] ?? '') || QUALIFIERS.test(texts[at] ?? ''); at++) {
    if (texts[at] === '*') pointers++
    else if (texts[at] === '&') {
      // 'T &&' takes what it is given as it is given.
      if (isReference) return undefined
      isReference = true
    }
  }
  const name = WORD.test(texts[at] ?? '') ? texts[at++] : undefined
  for (; texts[at] === '['; at++) {
    while (at < texts.length && texts[at] !== ']') at++
    // Of several dimensions it is a pointer to arrays.
    if (isArray) return undefined
    isArray = true
  }
  return { name, type: { base, isConst, pointers: pointers + (isArray ? 1 : 0), isReference, isArray }, next: at }
}

/** A parameter, or a type alone; undefined for what is not understood. */
export function declarationOf(tokens: readonly Token[]): Declaration | undefined {
  const texts = tokens.map(({ text }) => text)
  const base = baseAt(texts, 0)
  const found = base === undefined ? undefined : declaratorAt(texts, base.next, base)
  return found === undefined || !['=', undefined].includes(texts[found.next]) ? undefined : found
}

const isSame = (one: CppType | undefined, other: CppType | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

/** What a function declares, without its own parameters: one type for each name, or none where it has several. */
export function variablesOf(parameters: readonly (Declaration | undefined)[], body: readonly Token[]): Variables {
  const texts = body.map(({ text }) => text)
  const found = new Map<string, CppType | undefined>()
  const declare = (name: string | undefined, type: CppType | undefined): void => {
    if (name === undefined) return
    const known = type?.base[0] === 'auto' ? undefined : type
    found.set(name, found.has(name) && !isSame(found.get(name), known) ? undefined : known)
  }
  for (const each of parameters) declare(each?.name, each?.type)
  for (let at = 0; at < texts.length; at++) {
    const [before = '{', head = ''] = [texts[at - 1], texts[at - 2]]
    if (/^[{};]$/.test(before) || (before === '(' && /^(?:for|if|while|switch|catch)$/.test(head))) {
      statement(texts, at, declare)
    } else if (texts[at] === '[' && !/^(?:\w+|[\])])$/.test(before)) lambda(texts, at, declare)
  }
  return found
}

type Declare = (name: string | undefined, type: CppType | undefined) => void

function statement(texts: readonly string[], from: number, declare: Declare): void {
  const base = baseAt(texts, from)
  if (base === undefined) return
  if (base.base[0] === 'auto' && texts.slice(base.next, base.next + 3).includes('[')) {
    for (let at = base.next; at < texts.length && texts[at] !== ']'; at++) declare(texts[at], undefined)
    return
  }
  for (let at = base.next; at < texts.length; at++) {
    const found = declaratorAt(texts, at, base)
    if (found?.name === undefined || !/^[=;,{(:)]$/.test(texts[found.next] ?? '')) return
    declare(found.name, found.type)
    at = found.next
    for (let depth = 0; at < texts.length; at++) {
      const text = texts[at] ?? ''
      if ('([{'.includes(text)) depth++
      else if (')]}'.includes(text) && --depth < 0) return
      if (depth === 0 && text === ';') return
      if (depth === 0 && text === ',') break
    }
  }
}

/** Declares the parameters of a lambda, which hide variables of the same names. */
function lambda(texts: readonly string[], open: number, declare: Declare): void {
  const close = texts.indexOf(']', open)
  if (close < 0 || texts[close + 1] !== '(') return
  for (let at = close + 2; at < texts.length; at++) {
    const base = baseAt(texts, at)
    const found = base === undefined ? undefined : declaratorAt(texts, base.next, base)
    if (found === undefined) return
    declare(found.name, found.type)
    at = found.next
    if (texts[at] !== ',') return
  }
}

const plain = (...base: readonly string[]): CppType => ({
  base,
  isConst: false,
  pointers: 0,
  isReference: false,
  isArray: false,
})

const LITERALS: readonly (readonly [RegExp, CppType])[] = [
  [/^\d+$/, plain('int')],
  [/^\d+[uU]$/, plain('unsigned', 'int')],
  [/^(?:\d+\.\d*|\.?\d+)(?:[eE][+-]?\d+)?[fF]$/, plain('float')],
  [/^(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?$/, plain('double')],
  [/^(?:true|false)$/, plain('bool')],
]
const ADDED = /^(?:\w+|[+*/%(),.[\]]|->|::)$/

/**
 * The type of an argument of a call, if it is certain.
 * @param types Names of types, by which `T(0)` is no call.
 */
export function typeOfArgument(
  tokens: readonly Token[],
  variables: Variables,
  types: ReadonlySet<string>,
): CppType | undefined {
  const texts = tokens.map(({ text }) => text)
  const [first = '', second] = texts
  const isConversion = second === '(' && texts.indexOf(')') === texts.length - 1
  if (isConversion && (BUILT_IN.test(first) || types.has(first))) return plain(first)
  // Braces behind a name make a value of that type.
  const made = texts.at(-1) === '}' ? baseAt(texts, 0) : undefined
  if (made !== undefined && behindBracket(texts, made.next, '{', '}') === texts.length) return plain(...made.base)
  return typeOf(texts, variables)
}

function typeOf(texts: readonly string[], variables: Variables): CppType | undefined {
  const [first = '', second = ''] = texts
  if (texts.length === 1) return LITERALS.find(([pattern]) => pattern.test(first))?.[1] ?? variables.get(first)
  if (first === '-' && texts.length === 2 && /^[\d.]/.test(second)) return typeOf([second], variables)
  if (first === '&' && texts.length === 2) {
    const type = variables.get(second)
    return type === undefined || type.isArray ? undefined : { ...type, pointers: type.pointers + 1 }
  }
  const cast = castAt(texts)
  if (cast !== undefined) {
    const { type, next } = cast
    const rest = texts.slice(next)
    if (type.pointers > 0 ? rest.every((text) => ADDED.test(text)) : rest.length <= 1) return type
    return undefined
  }
  // An offset from a pointer.
  const type = variables.get(first)
  if (second === '+' && type !== undefined && type.pointers > 0 && texts.every((text) => ADDED.test(text))) return type
  if (second !== '[' || type === undefined || type.pointers === 0 || texts.indexOf(']') !== texts.length - 1)
    return undefined
  return { ...type, pointers: type.pointers - 1, isArray: false }
}

/** `(float *)`, of which what is cast stands behind, or `static_cast<float *>(…)`, of which what stands behind may be added. */
function castAt(texts: readonly string[]): { readonly type: CppType; readonly next: number } | undefined {
  const isNamed = /^(?:static|reinterpret|const)_cast$/.test(texts[0] ?? '')
  const open = isNamed ? 1 : 0
  if (texts[open] !== (isNamed ? '<' : '(')) return undefined
  const base = baseAt(texts, open + 1)
  const found = base === undefined ? undefined : declaratorAt(texts, base.next, base)
  if (found === undefined || found.name !== undefined || texts[found.next] !== (isNamed ? '>' : ')')) return undefined
  const { type, next } = found
  if (!isNamed) {
    const isType = type.pointers > 0 || BUILT_IN.test(type.base[0] ?? '')
    return isType && texts.length > next + 1 ? { type, next: next + 1 } : undefined
  }
  const behind = behindBracket(texts, next + 1, '(', ')')
  return behind === undefined ? undefined : { type, next: behind }
}

/** The index behind the bracket that closes one. */
function behindBracket(texts: readonly string[], from: number, open: string, close: string): number | undefined {
  if (texts[from] !== open) return undefined
  let depth = 0
  for (let at = from; at < texts.length; at++) {
    if (texts[at] === open) depth++
    else if (texts[at] === close && --depth === 0) return at + 1
  }
  return undefined
}

/**
 * The arguments of a template, as text: those that are given and those that the types of a call's arguments say. Undefined if one is missing
 * that has no default.
 * @param parameters Those of the function; undefined for one that is not understood.
 */
export function deduce(
  template: readonly TemplateParameter[],
  parameters: readonly (Declaration | undefined)[],
  types: readonly (CppType | undefined)[],
  given: readonly string[],
): readonly string[] | undefined {
  const values = new Map(given.map((text, index) => [template[index]?.name ?? '', text]))
  const fixed = new Set(values.keys())
  for (const [index, parameter] of parameters.entries()) {
    const type = types[index]
    if (parameter === undefined || type === undefined) continue
    for (const [name, text] of unified(parameter.type, type, template)) {
      if (fixed.has(name)) continue
      if ((values.get(name) ?? text) !== text) return undefined
      values.set(name, text)
    }
  }
  const missing = template.findIndex(({ name }) => !values.has(name))
  if (missing >= 0 && template.slice(missing).some(({ name, hasDefault }) => !hasDefault || values.has(name)))
    return undefined
  return template.slice(0, missing < 0 ? undefined : missing).map(({ name }) => values.get(name) ?? '')
}

/**
 * The words of a type without its namespaces. The compiler knows which of several types of a name is meant, and no other one is
 * called.
 */
function withoutNamespaces(base: readonly string[]): readonly string[] {
  const open = base.indexOf('<')
  return base.slice(base.lastIndexOf('::', open < 0 ? base.length : open) + 1)
}

/** What the parameters of a template stand for where a parameter of one type takes an argument of another. */
function unified(
  parameter: CppType,
  argument: CppType,
  template: readonly TemplateParameter[],
): readonly (readonly [name: string, text: string])[] {
  const names = new Set(template.map(({ name }) => name))
  const [own = ''] = parameter.base
  const text = spaced(argument.base)
  const deeper = argument.pointers - parameter.pointers
  if (parameter.base.length === 1 && names.has(own)) {
    if (deeper < 0 || (parameter.isReference && argument.isArray)) return []
    if (deeper > 0) {
      // The const of the parameter is then the pointer's own.
      if (parameter.isConst && parameter.pointers > 0) return []
      return [[own, `${argument.isConst ? 'const ' : ''}${text} ${'*'.repeat(deeper)}`]]
    }
    const isCopied = parameter.pointers === 0 && !parameter.isReference
    return [[own, argument.isConst && !parameter.isConst && !isCopied ? `const ${text}` : text]]
  }
  // Such as Complex<T>.
  const [wanted, given] = [withoutNamespaces(parameter.base), withoutNamespaces(argument.base)]
  const isAlike =
    deeper === 0 &&
    !wanted.includes('::') &&
    wanted.length === given.length &&
    wanted.every((word, index) => names.has(word) || word === given[index])
  if (!isAlike) return []
  return wanted.flatMap((word, index) => (names.has(word) ? [[word, given[index] ?? ''] as const] : []))
}
