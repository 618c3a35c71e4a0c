/** Reads PTX text. Instructions are split into opcode and operands here; the table gives their meaning (forms.ts). */
import { endOfBody, LineCounter } from './body-extent.js'
import { canonicalOpcode } from './forms.js'
import {
  bitsOf,
  type InitialValue,
  type Instruction,
  type Operand,
  type Prototype,
  type PtxFunction,
  type PtxText,
  ptxError,
  type Register,
  type Scope,
  type SourceLine,
  type StateSpace,
  type Variable,
} from './syntax.js'
import { isVideo, VideoMistake, type VideoOperand, videoPieces } from './video-operands.js'

const BLANK = /(?:[ \t\r\n]+|\/\/[^\n]*|\/\*[\s\S]*?\*\/|#[^\n]*)*/y
const TOKEN =
  /[A-Za-z_$%][\w$]*(?:\.\w+(?:::\w+)*)*(?:::\w+)*|\.[A-Za-z_][\w$]*(?:::\w+)*|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?|"[^"\n]*"|[-+*/%<>=!&|^~?:;,(){}[\]@]/y

const TARGET_MODES = new Set(['texmode_unified', 'texmode_independent', 'debug', 'map_f64_to_f32'])
/** The directives of functions. */
const DIRECTIVES =
  /^(?:maxnreg|maxntid|reqntid|minnctapersm|maxnctapersm|maxclusterrank|reqnctapercluster|explicitcluster|blocksareclusters|noreturn|unified|attribute|abi_preserve\w*)$/
const IDENTIFIER = /^[A-Za-z_$%]/
const SPACES = new Set(['.global', '.const', '.shared', '.local', '.param'])
/** Special registers whose names a register of the program cannot have. */
const SPECIAL =
  /^%(?:tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|lanemask_(?:eq|le|lt|ge|gt)|clock|clock_hi|clock64|pm\d|pm\d_64|envreg\d+|globaltimer|globaltimer_lo|globaltimer_hi|dynamic_smem_size|total_smem_size|aggr_smem_size|reserved_smem_offset_\w+|current_graph_exec|is_explicit_cluster|clusterid|nclusterid|cluster_ctaid|cluster_nctaid|cluster_ctarank|cluster_nctarank)(?:\.[xyzw])?$/
const KNOWN_LIMIT = 1 << 20

/**
 * Reads a module.
 * @throws ERR_COMPILATION, with the line, for text that is no PTX; ERR_UNSUPPORTED for 32-bit addresses
 */
export function parsePtx(text: string): PtxText {
  return new Parser(text, new LineCounter(text), 0).module()
}

/**
 * Reads the declarations of a module; the body of a function is read when it is looked at first, and what is wrong there is thrown then, each time.
 * @param tell Called when a body is read
 * @throws as `parsePtx` does, for what is wrong outside of bodies; where both throw, the error is the same
 */
export function parseDeclarations(text: string, tell: () => void): PtxText {
  try {
    return new Parser(text, new LineCounter(text), 0, tell).module()
  } catch {
    // A body that is wrong may be the cause, and only reading it tells.
    return parsePtx(text)
  }
}

/** The parts of a function that its body has. */
interface Body {
  readonly body: readonly Instruction[]
  readonly registers: readonly Register[]
  readonly variables: readonly Variable[]
}

/** A function whose body is read when it is looked at first. */
class DeferredFunction implements PtxFunction {
  readonly name: string
  readonly entry: boolean
  readonly line: number
  readonly isDefined = true
  readonly results: readonly Variable[]
  readonly parameters: readonly Variable[]
  readonly parameterRegisters: ReadonlyMap<string, Register>
  readonly directives: ReadonlyMap<string, readonly number[]>
  #read: (() => Body) | undefined
  #body: Body | undefined
  #failure: unknown

  constructor(head: FunctionHead, read: () => Body) {
    this.name = head.name
    this.entry = head.entry
    this.line = head.line
    this.results = head.results
    this.parameters = head.parameters
    this.parameterRegisters = head.parameterRegisters
    this.directives = head.directives
    this.#read = read
  }

  get body(): readonly Instruction[] {
    return this.#whole().body
  }

  get registers(): readonly Register[] {
    return this.#whole().registers
  }

  get variables(): readonly Variable[] {
    return this.#whole().variables
  }

  #whole(): Body {
    const read = this.#read
    this.#read = undefined
    try {
      this.#body ??= read?.()
    } catch (error) {
      // The scope has declarations of the body by now: it cannot be read again.
      this.#failure = error
    }
    if (this.#body === undefined) throw this.#failure
    return this.#body
  }
}

type FunctionHead = Omit<PtxFunction, 'isDefined' | keyof Body>

/** The register of this name that is visible in the scope; declares it with `make` if the name belongs to a range. */
function lookUpRegister(scope: Scope, name: string, make: (type: string) => Register): Register | undefined {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
    const known = at.registers.get(name)
    if (known !== undefined) return known
    if (at.ranges.size === 0) continue
    const digits = /\d+$/.exec(name)
    if (digits === null) continue
    const range = at.ranges.get(name.slice(0, digits.index))
    if (range === undefined || range.vector > 1 || Number(digits[0]) >= range.count) continue
    const register = make(range.type)
    at.registers.set(name, register)
    return register
  }
  return undefined
}

/** Notes what of a register's name could be its number in a range that is declared later, so that no range looks through all names. */
function noteNumbers({ numbered }: Scope, name: string): void {
  for (let at = name.length - 1; at > 0 && /\d/.test(name[at] ?? ''); at--) {
    if (name[at] === '0' && at < name.length - 1) continue
    const [beginning, number] = [name.slice(0, at), Number(name.slice(at))]
    numbered.set(beginning, Math.min(numbered.get(beginning) ?? number, number))
  }
}

/** A list of arguments or results, with the parts of a vector in its place. */
function withParts(operand: Operand): Operand {
  if (operand.kind !== 'list') return operand
  return { kind: 'list', items: operand.items.flatMap((each) => (each.kind === 'vector' ? each.items : [each])) }
}

/** The types of registers; other types, such as bf16 and tf32, are those of instructions alone. */
const REGISTER_TYPE = /^(?:pred|[bsu](?:8|16|32|64)|b128|f16|f16x2|f32|f64)$/
const PARTS = ['x', 'y', 'z', 'w'] as const
/** The other names of the parts of a vector, as those of a color. */
const COLORS = 'rgba'
/** Special registers of three parts. */
const VECTOR = /^%(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)$/

class Parser {
  #at = 0
  /** The token that comes next, '' at the end. */
  #next = ''
  #start = 0
  #version = ''
  #target = ''
  #files = new Map<number, string>()
  /** The source lines whose file is still a number: files are named at the end of the text, after the lines that mention them. */
  readonly #sources: { source: { file: string; line: number }; file: number }[] = []
  #source: SourceLine | undefined
  readonly #variables = new Map<string, Variable>()
  readonly #functions = new Map<string, PtxFunction>()
  readonly #aliases = new Map<string, string>()
  #registers: Register[] = []
  /** The first value of a constant expression, where it was read before the rest. */
  #given: Operand | undefined

  /** @param tell Called when a body is read; all are read at once if it is undefined */
  constructor(
    private readonly text: string,
    private readonly lines: LineCounter,
    begin: number,
    private readonly tell?: () => void,
  ) {
    this.#at = begin
    this.#advance()
  }

  module(): PtxText {
    while (!this.#is('')) this.#topLevel()
    if (this.#version === '') throw this.#error('PTX begins with .version, and this text has none')
    this.#nameFiles()
    return {
      version: this.#version,
      target: this.#target,
      variables: this.#variables,
      functions: this.#functions,
      aliases: this.#aliases,
    }
  }

  #nameFiles(): void {
    for (const { source, file } of this.#sources) source.file = this.#files.get(file) ?? `file ${file}`
  }

  /** Reads the body of a function from its opening brace on; the registers are those of its parameters. */
  body(scope: Scope, registers: Register[], files: Map<number, string>): Body {
    this.#registers = registers
    this.#files = files
    const body: Instruction[] = []
    const variables: Variable[] = []
    this.#expect('{')
    this.#statements(scope, body, variables)
    this.#nameFiles()
    return { body, registers, variables }
  }

  #error(message: string): Error {
    return ptxError('ERR_COMPILATION', message, { line: this.lines.at(this.#start), source: this.#source })
  }

  #advance(): string {
    const taken = this.#next
    BLANK.lastIndex = this.#at
    BLANK.exec(this.text)
    this.#start = BLANK.lastIndex
    if (this.#start >= this.text.length) {
      this.#next = ''
      this.#at = this.text.length
      return taken
    }
    TOKEN.lastIndex = this.#start
    const found = TOKEN.exec(this.text)
    if (found === null) throw this.#error(`'${this.text.slice(this.#start, this.#start + 20)}' is no PTX`)
    this.#next = found[0]
    this.#at = TOKEN.lastIndex
    return taken
  }

  #is(token: string): boolean {
    return this.#next === token
  }

  #accept(token: string): boolean {
    if (this.#next !== token) return false
    this.#advance()
    return true
  }

  #expect(token: string): void {
    if (!this.#accept(token)) throw this.#error(`Expected '${token}', found '${this.#next || 'the end of the text'}'`)
  }

  #identifier(): string {
    if (!IDENTIFIER.test(this.#next))
      throw this.#error(`Expected a name, found '${this.#next || 'the end of the text'}'`)
    return this.#advance()
  }

  #number(): number {
    const value = Number(this.#integer())
    if (!Number.isSafeInteger(value)) throw this.#error(`${value} is too large`)
    return value
  }

  #alignment(): number {
    const bytes = this.#number()
    if (bytes < 1 || !Number.isInteger(Math.log2(bytes))) throw this.#error(`.align ${bytes} is no power of two`)
    return bytes
  }

  #pragma(): void {
    do {
      this.#advance()
      if (!this.#next.startsWith('"')) throw this.#error('A .pragma is a text in quotes')
      this.#advance()
    } while (this.#is(','))
    this.#expect(';')
  }

  #topLevel(): void {
    switch (this.#next) {
      case '.version':
        this.#advance()
        this.#version = this.#advance()
        if (!/^\d+\.\d+$/.test(this.#version)) throw this.#error(`'${this.#version}' is no version of PTX`)
        return
      case '.target':
        this.#advance()
        this.#target = this.#identifier()
        if (!/^(?:sm|compute)_\d+\w?$/.test(this.#target))
          throw this.#error(`'${this.#target}' is no target, such as sm_90`)
        while (this.#accept(',')) {
          const mode = this.#identifier()
          if (!TARGET_MODES.has(mode)) throw this.#error(`A target has no '${mode}'`)
        }
        return
      case '.address_size':
        this.#advance()
        if (this.#number() !== 64) {
          const place = { line: this.lines.at(this.#start) }
          throw ptxError('ERR_UNSUPPORTED', 'Only .address_size 64 is supported: compile for 64 bits', place)
        }
        return
      case '.file':
        this.#file()
        return
      case '.section':
        this.#section()
        return
      case '.loc':
        this.#location()
        return
      case '.pragma':
        this.#pragma()
        return
      case '.alias': {
        this.#advance()
        const name = this.#identifier()
        this.#expect(',')
        this.#aliases.set(name, this.#identifier())
        this.#expect(';')
        return
      }
      default:
        if (this.#version === '' || this.#target === '')
          throw this.#error('PTX begins with .version and .target, and this text has not both before its declarations')
        this.#declaration()
    }
  }

  #file(): void {
    this.#advance()
    const number = this.#number()
    const name = this.#advance()
    if (!name.startsWith('"')) throw this.#error('Expected the name of a file')
    this.#files.set(number, name.slice(1, -1))
    while (this.#accept(',')) this.#number()
  }

  #section(): void {
    this.#advance()
    // The name of a section may have further dots.
    while (!this.#is('{') && !this.#is('')) this.#advance()
    let depth = 0
    do {
      if (this.#is('')) throw this.#error('A .section is not closed')
      if (this.#is('{')) depth++
      if (this.#is('}')) depth--
      this.#advance()
    } while (depth > 0)
  }

  #location(): void {
    this.#advance()
    const file = this.#number()
    const line = this.#number()
    this.#number()
    while (this.#accept(',')) {
      const word = this.#identifier()
      if (word === 'function_name') {
        this.#identifier()
        if (this.#accept('+')) this.#number()
      } else {
        for (let index = 0; index < 3; index++) this.#number()
      }
    }
    if (line === 0) return
    const source = { file: '', line }
    this.#sources.push({ source, file })
    this.#source = source
  }

  #declaration(): void {
    let external = false
    for (;;) {
      const token = this.#next
      if (token === '.extern') external = true
      else if (token === '.entry' || token === '.func') {
        this.#function(token === '.entry', external)
        return
      } else if (SPACES.has(token)) {
        if (token === '.local' || token === '.param') throw this.#error(`A variable in ${token} belongs to a function`)
        for (const variable of this.#variable(undefined, external)) {
          const known = this.#variables.get(variable.name)
          if (known === undefined || known.external) this.#variables.set(variable.name, variable)
          else if (!variable.external) throw this.#error(`'${variable.name}' is declared twice`)
        }
        this.#expect(';')
        return
      } else if (!/^\.(visible|weak|common)$/.test(token)) {
        throw this.#error(`'${token || 'The end of the text'}' cannot stand here`)
      }
      this.#advance()
    }
  }

  /** Reads `.space .align n .type name[..] = ..`, without the semicolon. In a list all variables have the same type. */
  #variable(scope: Scope | undefined, external: boolean): Variable[] {
    const line = this.lines.at(this.#start)
    const space = this.#advance().slice(1) as StateSpace
    let [alignment, type, vector] = [0, '', 1]
    let pointer: Variable['pointer']
    while (this.#next.startsWith('.')) {
      const word = this.#advance()
      if (word === '.align') alignment = this.#alignment()
      else if (word === '.attribute') this.#parenthesised()
      else if (word === '.ptr') {
        pointer = { space: 'generic', alignment: 4 }
      } else if (pointer !== undefined && SPACES.has(word)) pointer = { ...pointer, space: word.slice(1) }
      else if (/^\.v[248]$/.test(word)) vector = Number(word.slice(2))
      else if (bitsOf(word.slice(1)) > 0 || /^\.(texref|samplerref|surfref)$/.test(word)) type = word.slice(1)
      else if (!/^\.(visible|weak|extern|noreturn)$/.test(word)) throw this.#error(`'${word}' is no type`)
      if (pointer !== undefined && word === '.align') pointer = { ...pointer, alignment }
    }
    if (type === 'pred') throw this.#error('A predicate is a register: no memory holds one')
    if (type === '') throw this.#error(`A variable needs a type, and '${this.#next}' has none`)
    // The .align of a pointer parameter is that of the memory it points to, not of the parameter.
    if (pointer !== undefined) alignment = 0
    if (vector * bitsOf(type) > 128) throw this.#error(`A vector of ${vector} .${type} has more than 128 bits`)
    const element = (Math.max(8, bitsOf(type) || 64) / 8) * vector
    const all: Variable[] = []
    do {
      const name = this.#identifier()
      const counted = this.#dimensions()
      const initial: InitialValue[] = []
      let count = counted ?? 1
      if (this.#accept('=')) {
        if (/^(?:shared|local|param)$/.test(space))
          throw this.#error(`'${name}' cannot have a value in .${space}: store it in the kernel`)
        const end = this.#initial(initial, bitsOf(type) / 8, 0, type)
        if (counted === 0) count = Math.ceil(end / element)
        else if (end > element * count)
          throw this.#error(`'${name}' has ${element * count} bytes, and its initial values have ${end}`)
      }
      if (count === 0 && !external && space !== 'param')
        throw this.#error(`'${name}' has no elements: give it a length, or declare it .extern`)
      const byteLength = element * count
      if (byteLength > 2 ** 32) throw this.#error(`'${name}' has ${byteLength} bytes, which no GPU has room for`)
      const variable: Variable = {
        name,
        space,
        type,
        alignment: alignment || element,
        byteLength,
        initial,
        external,
        line,
        ...(pointer === undefined ? {} : { pointer }),
      }
      if (scope !== undefined) {
        if (!external) this.#refuseTwice(scope, name)
        scope.variables.set(name, variable)
      }
      all.push(variable)
    } while (this.#is(',') && space !== 'param' && this.#accept(','))
    return all
  }

  /** The product of an array's dimensions; 0 if one is not given; undefined if the variable is no array. */
  #dimensions(): number | undefined {
    let product: number | undefined
    while (this.#accept('[')) {
      product ??= 1
      const count = this.#is(']') ? 0 : this.#number()
      if (count < 0) throw this.#error(`An array cannot have ${count} elements`)
      product *= count
      this.#expect(']')
    }
    return product
  }

  /** Reads `{1, 2, {3}}` or one value; returns the offset behind it. */
  #initial(into: InitialValue[], bytes: number, from: number, type: string): number {
    let offset = from
    if (this.#accept('{')) {
      while (!this.#accept('}')) {
        offset = this.#initial(into, bytes, offset, type)
        if (!this.#is('}')) this.#expect(',')
      }
      return offset
    }
    const operand = this.#constant()
    if (operand.kind === 'symbol') {
      into.push({ offset, bytes, value: operand.offset, symbol: operand.name })
    } else if ((operand.kind === 'integer') === /^f(?:32|64)$/.test(type))
      throw this.#error(
        `A value of .${type} is not written so: it ${type.startsWith('f') ? 'has a point' : 'is an integer'}`,
      )
    else if (operand.kind === 'integer') into.push({ offset, bytes, value: operand.value })
    else if (operand.kind === 'float') into.push({ offset, bytes, value: floatBits(operand, bytes) })
    else throw this.#error('Expected a constant')
    return offset + bytes
  }

  #parenthesised(): void {
    this.#expect('(')
    while (!this.#accept(')')) {
      if (this.#is('')) throw this.#error('A parenthesis is not closed')
      this.#advance()
    }
  }

  #newScope(outer: Scope | undefined): Scope {
    return {
      outer,
      registers: new Map(),
      ranges: new Map(),
      numbered: new Map(),
      variables: new Map(),
      labels: new Map(),
      prototypes: new Map(),
      targets: new Map(),
    }
  }

  #newRegister(name: string, type: string): Register {
    if (this.#registers.length >= KNOWN_LIMIT) throw this.#error('This function has more than a million registers')
    const register = { id: this.#registers.length, name, type }
    this.#registers.push(register)
    return register
  }

  /** Reads a list of parameters in parentheses, which are registers or memory. */
  #parameters(scope: Scope, registers: Map<string, Register>): Variable[] {
    const all: Variable[] = []
    this.#expect('(')
    while (!this.#accept(')')) {
      if (this.#is('.reg')) {
        const line = this.lines.at(this.#start)
        this.#advance()
        const { type, vector } = this.#registerType()
        const name = this.#identifier()
        this.#refuseTwice(scope, name)
        noteNumbers(scope, name)
        // A vector is passed as its parts.
        const names = vector > 1 ? PARTS.slice(0, vector).map((part) => `${name}.${part}`) : [name]
        const byteLength = Math.max(8, bitsOf(type)) / 8
        for (const each of names) {
          const register = this.#newRegister(each, type)
          scope.registers.set(each, register)
          registers.set(each, register)
          const passed = { space: 'param', type, alignment: byteLength, byteLength, initial: [] } as const
          all.push({ name: each, ...passed, external: false, line })
        }
      } else if (this.#is('.param')) all.push(...this.#variable(scope, false))
      else throw this.#error(`Expected .param or .reg, found '${this.#next}'`)
      if (!this.#is(')')) this.#expect(',')
    }
    return all
  }

  #function(entry: boolean, external: boolean): void {
    const line = this.lines.at(this.#start)
    this.#advance()
    this.#registers = []
    this.#source = undefined
    const scope = this.#newScope(undefined)
    const parameterRegisters = new Map<string, Register>()
    if (entry && this.#is('(')) throw this.#error('A kernel has no results')
    const results = this.#is('(') ? this.#parameters(scope, parameterRegisters) : []
    const name = this.#identifier()
    const parameters = this.#is('(') ? this.#parameters(scope, parameterRegisters) : []
    if (entry && parameterRegisters.size > 0) throw this.#error(`The parameters of kernel '${name}' are .param`)
    if (entry && parameters.some(({ byteLength }) => byteLength === 0))
      throw this.#error(`The parameters of kernel '${name}' have lengths`)
    const directives = new Map<string, readonly number[]>()
    while (this.#next.startsWith('.')) {
      if (this.#is('.pragma')) {
        this.#pragma()
        continue
      }
      const directive = this.#advance().slice(1)
      if (!DIRECTIVES.test(directive)) throw this.#error(`A function has no '.${directive}'`)
      const numbers: number[] = []
      while (/^\d/.test(this.#next)) {
        numbers.push(this.#number())
        this.#accept(',')
      }
      if (/^(?:max|req)ntid$/.test(directive) && (numbers.length === 0 || numbers.includes(0)))
        throw this.#error(`.${directive} needs numbers of threads`)
      directives.set(directive, numbers)
    }
    if (directives.has('maxntid') && directives.has('reqntid'))
      throw this.#error(`'${name}' has both .maxntid and .reqntid: leave one out`)
    const known = this.#functions.get(name)
    const head = { name, entry, line, results, parameters, parameterRegisters, directives }
    if (this.#accept(';')) {
      if (known !== undefined) return
      const registers = this.#registers
      this.#functions.set(name, { ...head, isDefined: false, body: undefined, registers, variables: [] })
      return
    }
    if (external) throw this.#error(`'${name}' is .extern, and has a body`)
    if (known?.isDefined === true) throw this.#error(`'${name}' is defined twice`)
    this.#functions.set(name, this.#deferred(head, scope) ?? this.#defined(head, scope))
    this.#source = undefined
  }

  #defined(head: FunctionHead, scope: Scope): PtxFunction {
    const body: Instruction[] = []
    const variables: Variable[] = []
    this.#expect('{')
    this.#statements(scope, body, variables)
    return { ...head, isDefined: true, body, registers: this.#registers, variables }
  }

  /** The function whose body begins here, which is read later; undefined if it has to be read now. */
  #deferred(head: FunctionHead, scope: Scope): PtxFunction | undefined {
    if (this.tell === undefined || !this.#is('{')) return undefined
    const begin = this.#start
    const end = endOfBody(this.text, begin)
    if (end === undefined) return undefined
    // The parser of the whole text is not kept for a body.
    const { text, tell } = this
    const [line, registers, files] = [this.lines.at(begin), this.#registers, this.#files]
    this.#at = end
    this.#advance()
    return new DeferredFunction(head, () => {
      tell()
      return new Parser(text, new LineCounter(text, begin, line), begin).body(scope, registers, files)
    })
  }

  #statements(outermost: Scope, body: Instruction[], variables: Variable[]): void {
    let scope = outermost
    for (;;) {
      const token = this.#next
      if (token === '}') {
        this.#advance()
        if (scope.outer === undefined) return
        scope = scope.outer
      } else if (token === '{') {
        this.#advance()
        scope = this.#newScope(scope)
      } else if (token === '.reg') this.#registerDeclaration(scope)
      else if (token === '.loc') this.#location()
      else if (token === '.pragma') this.#pragma()
      else if (token === '.file') this.#file()
      else if (token === '.branchtargets' || token === '.calltargets') throw this.#error(`${token} needs a label`)
      else if (/^\.(extern|visible|weak|common)$/.test(token)) {
        const external = this.#advance() === '.extern'
        for (const each of this.#variable(scope, external)) this.#variables.set(each.name, each)
        this.#expect(';')
      } else if (SPACES.has(token)) {
        for (const each of this.#variable(scope, false)) {
          if (each.space === 'global' || each.space === 'const') this.#variables.set(each.name, each)
          variables.push(each)
        }
        this.#expect(';')
      } else if (token === '') throw this.#error('A function is not closed')
      else if (token === ';') this.#advance()
      else if (token !== '@' && !IDENTIFIER.test(token)) throw this.#error(`'${token}' cannot stand here`)
      else this.#instructionOrLabel(scope, body)
    }
  }

  /** Refuses a name that its block, without those around it, has already. */
  #refuseTwice(scope: Scope, name: string): void {
    const digits = /(?:0|[1-9]\d*)$/.exec(name)
    const range = digits === null ? undefined : scope.ranges.get(name.slice(0, digits.index))
    const isKnown =
      scope.labels.has(name) ||
      scope.registers.has(name) ||
      scope.registers.has(`${name}.x`) ||
      scope.variables.has(name) ||
      (range !== undefined && Number(digits?.[0]) < range.count)
    if (isKnown && name !== '_')
      throw this.#error(`'${name}' is declared twice in one block: leave one out, or give it another name`)
  }

  /** Declares the registers `name<count>`. */
  #registerRange(scope: Scope, name: string, type: string, vector: number): void {
    // No expression: in one, the bracket behind it would compare.
    if (!/^\d+$/.test(this.#next)) throw this.#error(`Expected a number of registers, found '${this.#next}'`)
    const count = Number(this.#advance())
    this.#expect('>')
    const isKnown = (scope.numbered.get(name) ?? count) < count
    if (isKnown || scope.ranges.has(name))
      throw this.#error(`A register of '${name}<${count}>' is declared twice in one block: give one another name`)
    scope.ranges.set(name, { type, count, vector })
  }

  /** The parts of a vector of registers with this name, from the innermost block that has it; empty if there is none. */
  #vector(scope: Scope, name: string): readonly Register[] {
    for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
      const { registers, ranges } = at
      const digits = /\d+$/.exec(name)
      const range = digits === null ? undefined : ranges.get(name.slice(0, digits.index))
      if (range !== undefined && range.vector > 1 && Number(digits?.[0]) < range.count && !registers.has(`${name}.x`))
        this.#declareVector(at, name, range.type, range.vector)
      const parts = PARTS.flatMap((part) => registers.get(`${name}.${part}`) ?? [])
      if (parts.length > 0) return parts
    }
    return []
  }

  #declareVector(scope: Scope, name: string, type: string, vector: number): void {
    for (const part of PARTS.slice(0, vector)) {
      scope.registers.set(`${name}.${part}`, this.#newRegister(`${name}.${part}`, type))
    }
  }

  #registerDeclaration(scope: Scope): void {
    this.#advance()
    const { type, vector } = this.#registerType()
    do {
      const name = this.#identifier()
      if (this.#accept('<')) {
        this.#registerRange(scope, name, type, vector)
        continue
      }
      this.#refuseTwice(scope, name)
      noteNumbers(scope, name)
      if (vector > 1) this.#declareVector(scope, name, type, vector)
      else scope.registers.set(name, this.#newRegister(name, type))
    } while (this.#accept(','))
    this.#expect(';')
  }

  /** Reads the type of registers, with the parts of each if they are vectors. */
  #registerType(): { readonly type: string; readonly vector: number } {
    let [type, vector] = ['', 1]
    while (this.#next.startsWith('.')) {
      const word = this.#advance().slice(1)
      if (/^v[24]$/.test(word)) vector = Number(word.slice(1))
      else if (word === 'align') this.#alignment()
      else if (REGISTER_TYPE.test(word) && type === '') type = word
      else throw this.#error(`'.${word}' is no type of a register`)
    }
    if (type === '') throw this.#error('A register needs a type, such as .b32')
    if (type === 'pred' && vector > 1) throw this.#error('A vector has no predicates: declare them one by one')
    return { type, vector }
  }

  #instructionOrLabel(scope: Scope, body: Instruction[]): void {
    const line = this.lines.at(this.#start)
    let guard: Instruction['guard']
    if (this.#accept('@')) {
      const negated = this.#accept('!')
      const operand = this.#name(scope)
      if (operand.kind !== 'register') throw this.#error('A guard must be a predicate register')
      guard = { register: operand.register, negated }
    }
    const opcode = this.#identifier()
    if (guard === undefined && this.#is(':')) {
      this.#advance()
      if (this.#is('.callprototype')) this.#prototype(scope, opcode)
      else if (this.#is('.branchtargets') || this.#is('.calltargets')) {
        this.#advance()
        const names: string[] = []
        do names.push(this.#identifier())
        while (this.#accept(','))
        this.#expect(';')
        scope.targets.set(opcode, names)
      } else {
        if (scope.registers.has(opcode)) throw this.#error(`'${opcode}' is a register and a label`)
        if (scope.labels.has(opcode)) throw this.#error(`The label '${opcode}' stands here twice`)
        scope.labels.set(opcode, body.length)
      }
      return
    }
    const operands: Operand[] = []
    const negated = new Set<number>()
    while (!this.#is(';')) {
      // A register of a video instruction may have a minus.
      if (
        this.#is('-') &&
        opcode.startsWith('vmad.') &&
        /^\s*[A-Za-z_$%]/.test(this.text.slice(this.#at, this.#at + 80))
      ) {
        this.#advance()
        negated.add(operands.length)
      }
      const given = this.#operand(scope)
      // A constant may stand in parentheses; those of a call are lists.
      const only = given.kind === 'list' && given.items.length === 1 ? given.items[0] : undefined
      const isCall = opcode.startsWith('call')
      const operand = only?.kind === 'integer' && !isCall ? only : isCall ? withParts(given) : given
      // What is read may have a constant added to it, but not what is written, which comes first.
      const isSum =
        operand.kind === 'register' && operands.length > 0 && !operand.register.name.includes('.') && this.#is('+')
      const summed = isSum ? this.#sum(operand.register, scope, line, body) : operand
      operands.push(summed)
      if (!this.#is(';')) this.#expect(',')
    }
    this.#advance()
    const instruction = { opcode: canonicalOpcode(opcode), guard, operands, scope, line, source: this.#source }
    if (isVideo(opcode)) body.push(...this.#videoInstructions(instruction, negated))
    else body.push(instruction)
  }

  /** A video instruction whose operands may be parts of registers, or have a minus: those become instructions of their own. */
  #videoInstructions(instruction: Instruction, negated: ReadonlySet<number>): readonly Instruction[] {
    const { opcode, operands, scope } = instruction
    const given = operands.map((operand, index): VideoOperand => {
      const whole = { operand, selector: '', negated: negated.has(index) }
      if (operand.kind !== 'symbol' || operand.variable !== undefined) return whole
      const [, name = '', selector = ''] = /^(.+)\.([bh]\d+)$/.exec(operand.name) ?? []
      const register = lookUpRegister(scope, name, (type) => this.#newRegister(name, type))
      return register === undefined ? whole : { ...whole, operand: { kind: 'register', register }, selector }
    })
    if (given.every(({ selector, negated: isNegated }) => selector === '' && !isNegated)) return [instruction]
    const pieces = videoPieces(opcode, given, () => this.#newRegister('part', 'b32'))
    if (pieces instanceof VideoMistake) throw this.#error(`${pieces.why} of '${opcode}'`)
    return pieces.map(({ guarded, ...piece }) => ({
      ...instruction,
      ...piece,
      opcode: canonicalOpcode(piece.opcode),
      guard: guarded ? instruction.guard : undefined,
    }))
  }

  /** Reads `+constant` behind a register, and adds it in an instruction of its own. */
  #sum(register: Register, scope: Scope, line: number, body: Instruction[]): Operand {
    const bits = bitsOf(register.type)
    if (!/^[bsu](?:16|32|64)$/.test(register.type))
      throw this.#error(`A constant cannot be added to '${register.name}' of .${register.type}: write an add`)
    let value = 0n
    while (this.#accept('+')) value += this.#integer()
    const sum: Operand = { kind: 'register', register: this.#newRegister(`${register.name}+${value}`, register.type) }
    const operands: readonly Operand[] = [sum, { kind: 'register', register }, { kind: 'integer', value }]
    body.push({ opcode: `add.u${bits}`, guard: undefined, operands, scope, line, source: this.#source })
    return sum
  }

  #prototype(scope: Scope, name: string): void {
    this.#advance()
    const own = this.#newScope(scope)
    const registers = new Map<string, Register>()
    let results: Variable[] = []
    if (this.#is('(')) results = this.#parameters(own, registers)
    this.#identifier()
    const parameters = this.#is('(') ? this.#parameters(own, registers) : []
    while (!this.#is(';') && !this.#is('')) this.#advance()
    this.#expect(';')
    const prototype: Prototype = { results, parameters }
    scope.prototypes.set(name, prototype)
  }

  #operand(scope: Scope): Operand {
    const first = this.#simpleOperand(scope)
    if (this.#accept('|')) return { kind: 'pair', first, second: this.#simpleOperand(scope) }
    return first
  }

  #simpleOperand(scope: Scope): Operand {
    const token = this.#next
    if (token === '{') {
      // Single registers may be in braces: Triton writes them so.
      const items = this.#items(scope, '{', '}')
      const [only] = items
      return items.length === 1 && only !== undefined ? only : { kind: 'vector', items }
    }
    if (token === '(') {
      // Parentheses may begin a constant expression as well as a list.
      const items = this.#items(scope, '(', ')')
      const [only] = items
      if (items.length !== 1 || only?.kind !== 'integer' || /^[,;]?$/.test(this.#next)) return { kind: 'list', items }
      this.#given = only
      return this.#constant()
    }
    if (token === '[') return this.#address(scope)
    if (token === '!') {
      this.#advance()
      return { kind: 'not', operand: this.#simpleOperand(scope) }
    }
    if (IDENTIFIER.test(token)) {
      const operand = this.#name(scope)
      if (operand.kind === 'symbol') this.#refuseMinus()
      if (operand.kind === 'symbol' && this.#accept('+')) return { ...operand, offset: this.#integer() }
      return operand
    }
    return this.#constant()
  }

  #items(scope: Scope, open: string, close: string): Operand[] {
    this.#expect(open)
    const items: Operand[] = []
    while (!this.#accept(close)) {
      items.push(this.#operand(scope))
      if (!this.#is(close)) this.#expect(',')
    }
    return items
  }

  /** Reads `[base+offset]`, `[base]` or `[number]`, and `[name, {..}]` of textures and tensor maps. */
  #address(scope: Scope): Operand {
    this.#expect('[')
    let base: Operand = { kind: 'integer', value: 0n }
    let offset = 0n
    if (IDENTIFIER.test(this.#next)) base = this.#name(scope)
    else offset = this.#integer()
    this.#refuseMinus()
    while (this.#accept('+')) offset += this.#integer()
    const coordinates: Operand[] = []
    while (this.#accept(',')) coordinates.push(this.#operand(scope))
    this.#expect(']')
    return coordinates.length === 0 ? { kind: 'address', base, offset } : { kind: 'address', base, offset, coordinates }
  }

  #refuseMinus(): void {
    if (this.#is('-')) throw this.#error('Nothing is subtracted from an address: write +-4 in place of -4')
  }

  #name(scope: Scope): Operand {
    const name = this.#identifier()
    if (name === '_') return { kind: 'sink' }
    const register = lookUpRegister(scope, name, (type) => this.#newRegister(name, type))
    if (register !== undefined) return { kind: 'register', register }
    if (VECTOR.test(name)) {
      const parts = ['x', 'y', 'z'].map((part): Operand => ({ kind: 'special', name: `${name.slice(1)}.${part}` }))
      return { kind: 'vector', items: [...parts, { kind: 'integer', value: 0n }] }
    }
    if (SPECIAL.test(name)) return { kind: 'special', name: name.slice(1) }
    if (name === 'WARP_SZ') return { kind: 'integer', value: 32n }
    for (let at: Scope | undefined = scope; at !== undefined; at = at.outer) {
      const variable = at.variables.get(name)
      if (variable !== undefined) return { kind: 'symbol', name, variable, offset: 0n }
    }
    const vector = this.#vector(scope, name)
    if (vector.length > 0)
      return { kind: 'vector', items: vector.map((each) => ({ kind: 'register', register: each })) }
    const [, owner = '', letter = ''] = /^(.+)\.([xyzwrgba])$/.exec(name) ?? []
    const part = this.#vector(scope, owner)[COLORS.includes(letter) ? COLORS.indexOf(letter) : 'xyzw'.indexOf(letter)]
    if (owner !== '' && part !== undefined) return { kind: 'register', register: part }
    // The name may have a part of the register behind it, as in video instructions. Those that are not known are refused in the kernels that use
    // them, not the whole text.
    const [whole = name, selector = ''] = name.split(/\.(?=[bh]\d+$)/)
    if (selector !== '' && lookUpRegister(scope, whole, (type) => this.#newRegister(whole, type)) !== undefined)
      return { kind: 'symbol', name, variable: undefined, offset: 0n }
    if (name.startsWith('%')) throw this.#error(`The register '${name}' is not declared`)
    return { kind: 'symbol', name, variable: undefined, offset: 0n }
  }

  #integer(): bigint {
    const operand = this.#constant()
    if (operand.kind !== 'integer') throw this.#error('Expected an integer')
    return operand.value
  }

  /** Reads a constant expression: PTX has C's operators on 64-bit integers. */
  #constant(): Operand {
    // Most constants are one number, and no operator can follow.
    if (this.#given === undefined && /\d/.test(this.#next[0] ?? '') && /[,;\]})]/.test(this.text[this.#at] ?? ''))
      return this.#unary()
    const condition = this.#binary(0)
    if (!this.#is('?') || condition.kind !== 'integer') return condition
    this.#advance()
    const first = this.#constant()
    this.#expect(':')
    const second = this.#constant()
    return condition.value === 0n ? second : first
  }

  #binary(level: number): Operand {
    const operators = LEVELS[level]
    if (operators === undefined) return this.#unary()
    let left = this.#binary(level + 1)
    while (operators.has(this.#operatorAhead())) {
      const operator = this.#takeOperator()
      const right = this.#binary(level + 1)
      left = this.#apply(operator, left, right)
    }
    return left
  }

  /** The operator that comes next; those of two characters are two tokens. */
  #operatorAhead(): string {
    const both = this.#next + (this.text[this.#at] ?? '')
    return DOUBLE.has(both) ? both : this.#next
  }

  #takeOperator(): string {
    const operator = this.#operatorAhead()
    this.#advance()
    if (operator.length === 2) this.#advance()
    return operator
  }

  #apply(operator: string, left: Operand, right: Operand): Operand {
    if (left.kind === 'symbol' && right.kind === 'integer' && (operator === '+' || operator === '-'))
      return { ...left, offset: left.offset + (operator === '-' ? -right.value : right.value) }
    if (left.kind !== 'integer' || right.kind !== 'integer') throw this.#error('A constant expression needs integers')
    if ((operator === '/' || operator === '%') && right.value === 0n) throw this.#error('A constant is divided by zero')
    const value = OPERATORS[operator]?.(left.value, right.value) ?? 0n
    return { kind: 'integer', value: BigInt.asIntN(64, BigInt(value)) }
  }

  #unary(): Operand {
    const given = this.#given
    if (given !== undefined) {
      this.#given = undefined
      return given
    }
    const token = this.#next
    if (token === '-' || token === '+' || token === '~' || token === '!') {
      this.#advance()
      const operand = this.#unary()
      if (operand.kind === 'float' && token === '-') {
        const sign = operand.width === 32 ? 1n << 31n : 1n << 63n
        return { ...operand, value: -operand.value, bits: operand.bits ^ sign }
      }
      if (operand.kind !== 'integer') throw this.#error('Expected a number')
      const { value } = operand
      return {
        kind: 'integer',
        value: token === '-' ? -value : token === '~' ? ~value : token === '!' ? (value === 0n ? 1n : 0n) : value,
      }
    }
    if (token === '(') {
      this.#advance()
      // A cast such as (.s64) changes nothing: constants have 64 bits.
      if (/^\.[su]64$/.test(this.#next)) {
        this.#advance()
        this.#expect(')')
        return this.#unary()
      }
      const operand = this.#constant()
      this.#expect(')')
      return operand
    }
    if (IDENTIFIER.test(token)) {
      const name = this.#identifier()
      if (name === 'WARP_SZ') return { kind: 'integer', value: 32n }
      if (name === 'generic') {
        this.#expect('(')
        const operand = this.#constant()
        this.#expect(')')
        return operand
      }
      return { kind: 'symbol', name, variable: undefined, offset: 0n }
    }
    if (/^0[fF][0-9a-fA-F]{8}$/.test(token)) {
      this.#advance()
      const bits = BigInt(`0x${token.slice(2)}`)
      return { kind: 'float', value: floatOf(bits, 32), bits, width: 32 }
    }
    if (/^0[dD][0-9a-fA-F]{16}$/.test(token)) {
      this.#advance()
      const bits = BigInt(`0x${token.slice(2)}`)
      return { kind: 'float', value: floatOf(bits, 64), bits, width: 64 }
    }
    if (/^\d+(?:\.|[eE])/.test(token) && !/^0[xX]/.test(token)) {
      this.#advance()
      const value = Number(token)
      return { kind: 'float', value, bits: bitsOfFloat(value, 64), width: 0 }
    }
    if (!/^\d/.test(token)) throw this.#error(`Expected a number, found '${token || 'the end of the text'}'`)
    this.#advance()
    const digits = token.replace(/U$/, '')
    if (/^0\d*[89]/.test(digits)) throw this.#error(`'${token}' begins with 0, and has digits that no octal number has`)
    if (BigInt(digits) >= 1n << 64n) throw this.#error(`'${token}' has more than 64 bits`)
    return { kind: 'integer', value: BigInt(/^0[0-7]+$/.test(digits) ? `0o${digits.slice(1)}` : digits) }
  }
}

/** The operators of constant expressions, those that bind least first. */
const LEVELS: readonly ReadonlySet<string>[] = [
  new Set(['||']),
  new Set(['&&']),
  new Set(['|']),
  new Set(['^']),
  new Set(['&']),
  new Set(['==', '!=']),
  new Set(['<', '>', '<=', '>=']),
  new Set(['<<', '>>']),
  new Set(['+', '-']),
  new Set(['*', '/', '%']),
]
const DOUBLE: ReadonlySet<string> = new Set(['||', '&&', '==', '!=', '<=', '>=', '<<', '>>'])

const OPERATORS: Readonly<Record<string, (a: bigint, b: bigint) => bigint | boolean>> = {
  '||': (a, b) => a !== 0n || b !== 0n,
  '&&': (a, b) => a !== 0n && b !== 0n,
  '|': (a, b) => a | b,
  '^': (a, b) => a ^ b,
  '&': (a, b) => a & b,
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '<': (a, b) => a < b,
  '>': (a, b) => a > b,
  '<=': (a, b) => a <= b,
  '>=': (a, b) => a >= b,
  '<<': (a, b) => a << (b & 63n),
  '>>': (a, b) => a >> (b & 63n),
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '%': (a, b) => a % b,
}

const scratch = new DataView(new ArrayBuffer(8))

function floatOf(bits: bigint, width: 32 | 64): number {
  scratch.setBigUint64(0, BigInt.asUintN(64, bits), true)
  return width === 32 ? scratch.getFloat32(0, true) : scratch.getFloat64(0, true)
}

export function bitsOfFloat(value: number, width: 32 | 64): bigint {
  if (width === 64) {
    scratch.setFloat64(0, value, true)
    return scratch.getBigUint64(0, true)
  }
  scratch.setFloat32(0, value, true)
  return BigInt(scratch.getUint32(0, true))
}

/** The bits of a constant in a variable of 4 or 8 bytes. */
export function floatBits(operand: { value: number; bits: bigint; width: 32 | 64 | 0 }, bytes: number): bigint {
  if (operand.width === 8 * bytes) return operand.bits
  return bitsOfFloat(operand.value, bytes === 4 ? 32 : 64)
}
