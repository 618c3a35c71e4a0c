/**
 * What of a file of CUDA C++ is for the GPU. NVRTC refuses functions and variables of the host, so they are replaced by spaces, which keeps
 * every line where it was; and behind each kernel stands a probe (signature-probe.ts), which makes the compiler say what its parameters are.
 */
import { stateError } from '../foundation/base/errors.js'
import { isStandardPart } from './cuda-parts.js'
import { INCLUDE } from './includes.js'
import { KernelMacros } from './kernel-macros.js'
import { probeOf, structMark } from './signature-probe.js'
import {
  commentAbove,
  onOneLine,
  positionOf,
  type SourcePosition,
  type SourceTokens,
  spaced,
  type Token,
  tokensOf,
} from './source-text.js'
import {
  type CppType,
  type Declaration,
  declarationOf,
  deduce,
  isType,
  type TemplateParameter,
  typeOfArgument,
  type Variables,
  variablesOf,
} from './template-arguments.js'

export interface SourceParameter {
  /** The parameter's name; undefined for a parameter without one. */
  readonly name: string | undefined
  /** The parameter as it is written, such as 'const float *x'. */
  readonly text: string
  readonly start: number
}

/** A kernel, or an instantiation of a kernel template. */
export interface SourceKernel {
  /** The number of its probe. */
  readonly probe: number
  readonly file: string
  /** The kernel's name with its template arguments, such as 'reduce<float, 256>'. */
  readonly expression: string
  /** The namespaces around it. */
  readonly path: readonly string[]
  /** The index in the text at which the kernel's name begins. */
  readonly start: number
  readonly parameters: readonly SourceParameter[]
  readonly comment: string
}

/** A struct or class, or a template of such. */
export interface SourceStruct {
  /** The struct's name, or that which a typedef gives it. */
  readonly name: string
  readonly file: string
  /** The namespaces and structs around it. */
  readonly path: readonly string[]
  /** The index in the text at which the struct begins. */
  readonly start: number
  readonly comment: string
  /** The names of its members, in their order. */
  readonly members: readonly string[]
  /** Why JavaScript has no value for it; undefined if it may have one. */
  readonly refused: string | undefined
}

/** A struct whose body is being read. */
interface OpenStruct {
  readonly members: string[]
  refused: string | undefined
  isPublic: boolean
}

/** What a call of a template needs so that its arguments are deduced. */
interface Deducible {
  readonly template: readonly TemplateParameter[]
  /** The declarations of the function's parameters; undefined for one that is not understood. */
  readonly declarations: readonly (Declaration | undefined)[]
  /** Whether there are several functions of this name: the compiler decides which one a call means. */
  readonly isOverloaded: boolean
}

interface KernelTemplate extends Deducible {
  readonly file: string
  readonly start: number
  readonly path: readonly string[]
  readonly parameters: readonly SourceParameter[]
  readonly comment: string
  readonly hasBody: boolean
}

/** A launch of a kernel template, of which the text does not say its arguments. */
export interface UnclearLaunch {
  /** The name of the kernel template. */
  readonly kernel: string
  readonly file: string
  readonly start: number
  /** Why no kernel comes of it. */
  readonly why: string
}

interface UnusedTemplate extends KernelTemplate {
  readonly name: string
  /** The launches of the template of which no kernel comes. */
  readonly launches: readonly UnclearLaunch[]
  /** Whether some kernel is made of it. */
  readonly isUsed: boolean
}

/** A launch of a kernel template in a function of the host. */
interface TemplateLaunch {
  /** The kernel's name with its template arguments, such as 'reduce<T, 256>'. */
  readonly expression: string
  /** The same expression with its namespaces. */
  readonly written: string
  readonly kernel: KernelTemplate
  readonly file: string
  readonly start: number
  /** What the function says with `using`, by which its names are found. */
  readonly usings: string
  /** The namespaces around the function. */
  readonly namespaces: readonly string[]
}

/** A template of a function of the host. */
interface HostTemplate extends Deducible {
  readonly name: string
  /** The launches whose arguments are known once the template's own are. */
  readonly launches: TemplateLaunch[]
  /** Whether arguments of it are known somewhere. */
  isUsed: boolean
}

interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
  /** What the edit adds that the source can do without. */
  readonly added?: AddedText
}

/** A probe, or the mark of a struct. */
interface AddedText {
  /** A key that is the same whenever the file is read. */
  readonly key: string
  /** The kernel that the probe is of; undefined for a mark. */
  readonly kernel?: Omit<SourceKernel, 'probe'>
}

/** What kernels may need of a declaration, or whether the host alone does. */
type Audience = 'device' | 'both' | 'host' | 'member' | 'scope'

/** A declaration of a file: of a namespace's, or of a struct's. */
export interface Piece {
  readonly file: string
  readonly start: number
  readonly end: number
  readonly audience: Audience
  readonly isKernel: boolean
}

/** What is left out, since the compiler refuses it, and the kernels may not need it. */
export class LeftOut {
  /** The ends of declarations, by their file and start. */
  readonly #pieces = new Map<string, number>()
  readonly #added = new Set<string>()

  get size(): number {
    return this.#pieces.size + this.#added.size
  }

  add(what: Piece | AddedText): void {
    if ('key' in what) this.#added.add(what.key)
    else this.#pieces.set(`${what.file}:${what.start}`, what.end)
  }

  /** The end of a declaration that is left out; undefined for others. */
  endOf(file: string, start: number): number | undefined {
    return this.#pieces.get(`${file}:${start}`)
  }

  hasAdded(key: string): boolean {
    return this.#added.has(key)
  }

  toJSON(): unknown {
    return [[...this.#pieces], [...this.#added]]
  }
}

/** The place in the source of something in the edited text. */
export interface Origin {
  readonly offset: number
  /** The probe or mark that it stands in. */
  readonly added: AddedText | undefined
}

/** Namespaces and structs in each other: C++ recommends that compilers take as many nested blocks. */
const MOST_NESTED = 256
/** Functions whose arguments in parentheses are no list of parameters. */
const ATTRIBUTES = new Set([
  '__launch_bounds__',
  '__cluster_dims__',
  '__block_size__',
  '__maxnreg__',
  '__align__',
  '__attribute__',
  '__declspec',
  '__builtin_align__',
  'alignas',
  'decltype',
  'noexcept',
  'requires',
  'explicit',
  'throw',
])
const ON_DEVICE = new Set(['__device__', '__global__', '__constant__', '__managed__', '__shared__'])
const CLASS = new Set(['class', 'struct', 'union'])
/** What an argument of a template may be made of without a declaration in the file. */
const KNOWN =
  /^(?:::|[,<>*&+-]|\d[\w.']*|'.*'|true|false|const|unsigned|signed|char|bool|short|int|long|float|double|half|__half2?|half2|__nv_bfloat16\d?|nv_bfloat16\d?|u?int(?:8|16|32|64)_t|size_t|u?(?:char|short|int|long|longlong)[1-4]|(?:float|double)[1-4]|dim3|std)$/
/** Names of std that the stand-in headers have (standard-headers.ts). */
const STANDARD =
  /^(?:u?int\w*_t|size_t|ptrdiff_t|min|max|swap|numeric_limits|is_\w+|enable_if\w*|conditional\w*|remove_\w+|integral_constant|bool_constant|pair|make_pair|decay\w*|add_\w+|make_\w?signed\w*|common_type\w*|underlying_type\w*|void_t|conjunction\w*|disjunction\w*|negation\w*|type_identity\w*|rank|extent|alignment_of|clamp|memcpy|memset|true_type|false_type|forward|move|declval|sqrt|abs|pow|exp|log|sin|cos|tan|floor|ceil)$/
const isOfDevice = (name = ''): boolean => STANDARD.test(name) || isStandardPart(name)
/** Names of macros that may mean __device__ or __global__, and are defined in a header that is not read here. */
const MAY_BE_ON_DEVICE = /^[A-Z0-9_]*(?:DEVICE|KERNEL|GLOBAL|CALLABLE|INLINE_HD|HOSTDEV|_HD)[A-Z0-9_]*$/

/** The files of one compilation, the included ones before those that include them. */
export class DeviceSources {
  readonly kernels: SourceKernel[] = []
  /** The structs. The number of a struct is its place here, from 1. */
  readonly structs: SourceStruct[] = []
  /** The templates of kernels by their name. */
  readonly templates = new Map<string, KernelTemplate>()
  /** The templates of functions of the host by their name. */
  readonly hostTemplates = new Map<string, HostTemplate>()
  /** Expressions that have a probe, such as 'reduce<float>'. */
  readonly probed = new Set<string>()
  /** Names of types, constants and macros that an argument of a template may have. */
  readonly declared = new Set<string>()
  /** The annotations that a macro stands for, such as those of `#define HD __host__ __device__`. */
  readonly annotations = new Map<string, readonly string[]>()

  /** Names of kernel templates that the source instantiates itself. */
  readonly instantiated = new Set<string>()
  /** Declarations, those that are within others before these. */
  readonly pieces: Piece[] = []
  readonly #unclear: UnclearLaunch[] = []
  readonly #sources = new Map<string, DeviceSource>()
  readonly #macros = new KernelMacros()

  constructor(readonly leftOut: LeftOut = new LeftOut()) {}

  /**
   * Returns what of a file is for the GPU.
   * @param names The compiler's names of the headers that it includes.
   */
  add(file: string, text: string, names: ReadonlyMap<string, string> = new Map()): string {
    this.#macros.read(text)
    const source = new DeviceSource(this, file, this.#macros.expanded(text), names)
    this.#sources.set(file, source)
    return source.edited()
  }

  /** The text of a file, as people wrote it but for macros that make kernels; empty for one that is not here. */
  textOf(file: string): string {
    return this.#sources.get(file)?.text ?? ''
  }

  /** Returns the place in the source of one in the edited text; undefined for a file that is not here. */
  originOf(file: string, at: SourcePosition): Origin | undefined {
    return this.#sources.get(file)?.originOf(at)
  }

  /** The probes and marks that were added to a line. */
  addedIn(file: string, line: number): readonly AddedText[] {
    return this.#sources.get(file)?.addedIn(line) ?? []
  }

  /** The innermost declaration around a place. */
  pieceAt(file: string, offset: number, isAny: (piece: Piece) => boolean = () => true): Piece | undefined {
    const around = this.pieces.filter(
      (each) => each.file === file && each.start <= offset && offset <= each.end && isAny(each),
    )
    return around.sort((a, b) => a.end - a.start - (b.end - b.start))[0]
  }

  /** Notes a launch of which no kernel comes. */
  addUnclear(launch: UnclearLaunch): void {
    this.#unclear.push(launch)
  }

  /** Launches in templates of the host that nothing instantiates. */
  #waiting(): readonly UnclearLaunch[] {
    return [...this.hostTemplates.values()].flatMap(({ name, launches, isUsed }) =>
      isUsed
        ? []
        : launches.map(({ expression, file, start }) => ({
            kernel: expression.replace(/<[\s\S]*/, ''),
            file,
            start,
            why: `nothing instantiates ${name}, which launches it`,
          })),
    )
  }

  /** Templates of which the files make no kernel, or not each that they launch, unless they instantiate some. */
  get unused(): readonly UnusedTemplate[] {
    const used = new Set(this.kernels.map(({ expression }) => expression.replace(/<[\s\S]*/, '').trim()))
    return [...this.templates].flatMap(([name, template]) => {
      const launches = this.#unclear.filter(({ kernel }) => kernel === name)
      if (used.has(name) && (launches.length === 0 || this.instantiated.has(name))) return []
      const waiting = used.has(name) ? [] : this.#waiting().filter(({ kernel }) => kernel === name)
      return [{ ...template, name, launches: [...launches, ...waiting], isUsed: used.has(name) }]
    })
  }
}

class DeviceSource {
  readonly #source: SourceTokens
  readonly #tokens: readonly Token[]
  #angles: ReadonlyMap<number, number> | undefined
  readonly #edits: Edit[] = []
  /** The namespaces, structs and blocks of `extern` around what is being read. */
  #depth = 0
  /** The structs around what is being read, the innermost last. */
  readonly #open: OpenStruct[] = []
  /** Whom what was read last is for. */
  #audience: Audience = 'host'
  /** Whether what was read last is a kernel. */
  #isKernel = false
  /** The index of the token behind the outermost of these structs. */
  #behindClass: number | undefined
  /** The namespaces around it. */
  #namespaces: readonly string[] = []

  constructor(
    private readonly all: DeviceSources,
    private readonly file: string,
    readonly text: string,
    names: ReadonlyMap<string, string>,
  ) {
    this.#source = tokensOf(text)
    this.#tokens = this.#source.tokens
    this.#readMacros()
    this.#renameHeaders(names)
    // Without partners of all brackets it is not known where a function ends: the compiler then sees all of it.
    if (this.#source.balanced) this.#scope(0, this.#tokens.length, [], 'namespace')
  }

  edited(): string {
    let [text, at] = ['', 0]
    for (const { start, end, text: instead } of this.#edits.sort((a, b) => a.start - b.start)) {
      text += this.text.slice(at, start) + instead
      at = end
    }
    return text + this.text.slice(at)
  }

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
  #renameHeaders(names: ReadonlyMap<string, string>): void {
    for (const { text, start } of this.#source.directives) {
      const { 0: all, 1: quoted, 2: angled } = INCLUDE.exec(text) ?? []
      const name = names.get(quoted ?? angled ?? '')
      if (all === undefined || name === undefined || name === (quoted ?? angled)) continue
      this.#edits.push({ start, end: start + all.length, text: `#include "${name}"` })
    }
  }

  #readMacros(): void {
    for (const { text } of this.#source.directives) {
      const [, name, body] = /^\s*#\s*define\s+(\w+)(?!\()(?:\s+([\s\S]*))?$/.exec(text) ?? []
      if (name === undefined) continue
      this.all.declared.add(name)
      const annotations = (body ?? '').match(/\b(?:__(?:device|global|host|constant|managed|shared)__|constexpr)\b/g)
      const words = (body ?? '').match(/\w+/g) ?? []
      const inner = words.flatMap((word) => this.all.annotations.get(word) ?? [])
      const own = [...(annotations ?? []), ...inner]
      if (own.length > 0) this.all.annotations.set(name, own)
    }
  }

  #is(index: number, text: string): boolean {
    return this.#tokens[index]?.text === text
  }

  #closing(index: number): number {
    return this.#source.closing.get(index) ?? index
  }

  /** The index behind what an angle bracket opens; `end` where nothing before it closes that. */
  #behindAngles(index: number, end: number): number {
    this.#angles ??= anglesIn(this.#source)
    const closing = this.#angles.get(index)
    return closing !== undefined && closing < end ? closing + 1 : end
  }

  /** The index behind the next ';', which lies in no brackets. */
  #behindStatement(index: number, end: number): number {
    for (let at = index; at < end; at = this.#closing(at) + 1) if (this.#is(at, ';')) return at + 1
    return end
  }

  #scope(from: number, end: number, path: readonly string[], kind: 'namespace' | 'class'): void {
    if (this.#depth === MOST_NESTED) {
      const { line } = positionOf(this.text, this.#tokens[from]?.start ?? 0)
      throw stateError(
        'ERR_UNSUPPORTED',
        `${this.file}:${line}: more than ${MOST_NESTED} scopes lie in each other: take out some`,
      )
    }
    this.#depth += 1
    for (let at = from; at < end; ) {
      const next = this.#declaration(at, end, path, kind)
      at = Math.max(next, at + 1)
    }
    this.#depth -= 1
  }

  /** Handles what begins at a token, or leaves it out. Returns the index behind it. */
  #declaration(at: number, end: number, path: readonly string[], kind: 'namespace' | 'class'): number {
    const start = this.#tokens[at]?.start ?? 0
    const leftOut = this.all.leftOut.endOf(this.file, start)
    if (leftOut !== undefined) {
      let behind = at + 1
      while (behind < end && (this.#tokens[behind]?.end ?? 0) <= leftOut) behind++
      this.#blank(at, behind)
      return behind
    }
    this.#audience = 'host'
    this.#isKernel = false
    const behind = Math.max(at + 1, this.#read(at, end, path, kind))
    const piece = { file: this.file, start, end: this.#tokens[behind - 1]?.end ?? start }
    this.all.pieces.push({ ...piece, audience: this.#audience, isKernel: this.#isKernel })
    return behind
  }

  #read(at: number, end: number, path: readonly string[], kind: 'namespace' | 'class'): number {
    const { text } = this.#tokens[at] ?? { text: '' }
    if (text === ';') return at + 1
    if (kind === 'class' && /^(?:public|private|protected|:)$/.test(text)) {
      const around = this.#open.at(-1)
      if (around !== undefined && text !== ':') around.isPublic = text === 'public'
      return at + 1
    }
    const inline = text === 'inline' && this.#is(at + 1, 'namespace') ? 1 : 0
    if (this.#is(at + inline, 'namespace')) {
      let open = at + inline + 1
      const names: string[] = []
      for (; open < end && !'{=;'.includes(this.#tokens[open]?.text ?? ';'); open = this.#closing(open) + 1) {
        const name = this.#tokens[open]?.text ?? ''
        if (!/^\w+$/.test(name)) continue
        names.push(name)
        this.all.declared.add(name)
      }
      if (!this.#is(open, '{')) return this.#alias(at, at, end)
      this.#scope(open + 1, this.#closing(open), [...path, ...names], 'namespace')
      this.#audience = 'scope'
      return this.#closing(open) + 1
    }
    if (text === 'extern' && /^"C/.test(this.#tokens[at + 1]?.text ?? '') && this.#is(at + 2, '{')) {
      this.#scope(at + 3, this.#closing(at + 2), path, 'namespace')
      this.#audience = 'scope'
      return this.#closing(at + 2) + 1
    }
    if (/^(?:using|static_assert|asm)$/.test(text)) return this.#alias(at, at, end)
    if (this.#isMacroCall(at, end)) return this.#closing(at + 1) + 1
    return this.#declared(at, end, path, kind)
  }

  /** `using`, `typedef` and the like, which may be a template. Those of the host's own types are not for the GPU. */
  #alias(at: number, head: number, end: number): number {
    const behind = this.#behindStatement(head, end)
    const names = this.#tokens.slice(head, behind).map(({ text }) => text)
    for (const [index, name] of names.entries()) {
      if (name !== 'std' || names[index + 1] !== '::') continue
      if (isOfDevice(names[index + 2])) continue
      this.#blank(at, behind)
      return behind
    }
    const named = /^(?:using|concept|namespace)$/.test(names[0] ?? '') ? names[1] : names.at(-2)
    if (named !== undefined) this.#declare(named)
    return behind
  }

  /** A macro that is called where a declaration begins, without a ';' behind it. */
  #isMacroCall(at: number, end: number): boolean {
    if (!/^[A-Z_][A-Z0-9_]+$/.test(this.#tokens[at]?.text ?? '') || !this.#is(at + 1, '(')) return false
    const behind = this.#closing(at + 1) + 1
    return behind < end && /^\w/.test(this.#tokens[behind]?.text ?? '')
  }

  #declared(at: number, end: number, path: readonly string[], kind: 'namespace' | 'class'): number {
    let head = at
    while (this.#is(head, 'template') && this.#is(head + 1, '<')) head = this.#behindAngles(head + 1, end)
    if (/^(?:using|concept)$/.test(this.#tokens[head]?.text ?? '')) return this.#alias(at, head, end)
    const isSpecialization = head > at && this.#is(at + 2, '>')
    const isTemplate = head > at && !isSpecialization
    const isInstantiation = this.#is(head, 'template') || (this.#is(head, 'extern') && this.#is(head + 1, 'template'))
    let isClass = false
    let isEnum = false
    let isTypedef = false
    let parameters: number | undefined
    const words = new Set<string>()
    for (let index = head; index < end; index++) {
      const { text } = this.#tokens[index] ?? { text: '' }
      const before = this.#tokens[index - 1]?.text ?? ''
      if (/^\w/.test(text)) {
        for (const word of [text, ...(this.all.annotations.get(text) ?? [])]) words.add(word)
        isClass ||= CLASS.has(text) && parameters === undefined
        isEnum ||= text === 'enum'
        isTypedef ||= text === 'typedef'
        if (text !== 'operator') continue
        // The operator's own marks are no list of parameters.
        index++
        if (this.#is(index, '(')) index = this.#closing(index)
        while (index + 1 < end && !this.#is(index + 1, '(')) index++
      } else if (text === '<' && /^\w/.test(before) && before !== 'operator') {
        const behind = this.#behindAngles(index, end)
        if (behind < end) index = behind - 1
      } else if (text === '(') {
        if (!ATTRIBUTES.has(before)) parameters = index
        index = this.#closing(index)
      } else if (text === '[') index = this.#closing(index)
      else if (text === ':' && parameters !== undefined) {
        // Initializers of members stand before the body.
        for (index++; index < end; index++) {
          if (!'({'.includes(this.#tokens[index]?.text ?? ' ')) continue
          index = this.#closing(index)
          if (!this.#is(index + 1, ',')) break
        }
      } else if (text === '=') {
        const behind = this.#behindStatement(index, end)
        if (parameters !== undefined) {
          const set = this.#tokens[index + 1]?.text ?? ''
          if (/^(?:default|delete|0)$/.test(set)) {
            if (words.has('virtual')) this.#refuse('has virtual functions')
            // The table of virtual functions is the host's.
            if (!this.#isForDevice(words) && (words.has('virtual') || set === '0')) this.#blank(at, behind)
            return behind
          }
        }
        if (!isTypedef) this.#variable(at, behind, words, kind)
        return behind
      } else if (text === ';') {
        if (isTypedef) return this.#alias(at, at, end)
        if (isClass && parameters === undefined && index - head <= 2) this.#declareType(head)
        else if (parameters === undefined) this.#variable(at, index + 1, words, kind)
        else
          this.#function({
            at,
            parameters,
            behind: index + 1,
            body: false,
            isTemplate,
            isSpecialization,
            isInstantiation,
            words,
            path,
          })
        return index + 1
      } else if (text === '{') {
        const behind = this.#closing(index) + 1
        if (parameters !== undefined) {
          this.#function({
            at,
            parameters,
            behind,
            body: true,
            isTemplate,
            isSpecialization,
            isInstantiation,
            words,
            path,
          })
          return behind
        }
        if (isClass && !isEnum) {
          this.#declareType(head)
          const next = this.#is(behind, ';') ? behind + 1 : this.#behindStatement(behind, end)
          this.#struct({ at, head, open: index, behind, next, isTypedef, isTemplate, path, kind })
          // What follows declares a variable of it, or a type.
          const isVariable = next > behind + 1 && !isTypedef && kind === 'namespace'
          if (isVariable && !this.#isForDevice(words) && !words.has('const') && !words.has('constexpr')) {
            this.#blank(behind, next - 1)
          }
          return next
        }
        if (isEnum) {
          this.#declareType(head)
          if (kind === 'class' && !this.#is(behind, ';')) this.#refuse('a member of an enum that is declared with it')
          const next = this.#behindStatement(behind, end)
          if (kind === 'namespace' && !isTypedef && !this.#isForDevice(words)) this.#blank(behind, next - 1)
        } else this.#variable(at, this.#behindStatement(index, end), words, kind)
        return this.#behindStatement(behind, end)
      }
    }
    return end
  }

  /** What a class has within it, only its members call so. */
  #declare(name: string): void {
    if (this.#behindClass === undefined) this.all.declared.add(name)
  }

  /** What stands between angle brackets of a specialization is not what it declares. */
  #declareType(head: number): void {
    for (
      let at = head;
      at < this.#tokens.length && !/^[{:;<]$/.test(this.#tokens[at]?.text ?? ';');
      at = this.#closing(at) + 1
    )
      this.#declare(this.#tokens[at]?.text ?? '')
  }

  #isForDevice(words: ReadonlySet<string>): boolean {
    return [...words].some((word) => ON_DEVICE.has(word) || MAY_BE_ON_DEVICE.test(word))
  }

  /** Reads a struct's body, and marks it for the compiler, which then says what it is by its number. */
  #struct(found: {
    readonly at: number
    readonly head: number
    readonly open: number
    readonly behind: number
    /** The index of the token behind the ';'. */
    readonly next: number
    readonly isTypedef: boolean
    readonly isTemplate: boolean
    readonly path: readonly string[]
    readonly kind: 'namespace' | 'class'
  }): void {
    const { at, head, open, behind, next, isTypedef, isTemplate, path, kind } = found
    const texts = this.#tokens.slice(head, open).map(({ text }) => text)
    const keyword = texts.findIndex((text) => CLASS.has(text))
    const word = texts[keyword]
    const bases = texts.indexOf(':')
    const own = texts.slice(keyword + 1, bases < 0 ? undefined : bases).filter((text) => text !== 'final')
    const given = /^\w+$/.test(own.at(-1) ?? '') ? own.at(-1) : undefined
    // What looks like a macro behind the name may be either.
    const isUnclear = /^[A-Z_\d]+$/.test(given ?? '') && /^\w+$/.test(own.at(-2) ?? '')
    const last = this.#tokens[next - 2]?.text ?? ''
    const name = given ?? (isTypedef && /^\w+$/.test(last) ? last : undefined)
    const body: OpenStruct = { members: [], refused: undefined, isPublic: word !== 'class' }
    const isOutermost = this.#behindClass === undefined
    this.#behindClass ??= next
    const audience = this.#audience
    if (isOutermost) this.#namespaces = path
    this.#open.push(body)
    this.#scope(open + 1, behind - 1, name === undefined ? path : [...path, name], 'class')
    this.#open.pop()
    this.#audience = audience
    this.#isKernel = false
    if (isOutermost) this.#behindClass = undefined
    if (word === 'union') body.refused = 'is a union'
    else if (bases >= 0) body.refused ??= 'has a base class'
    const around = this.#open.at(-1)
    if (around !== undefined && !isTypedef) {
      // A struct within a struct, which declares members with it or has none of a name.
      if (this.#is(behind, ';')) {
        if (name === undefined) this.#refuse(`has ${word === 'union' ? 'a union' : 'a struct'} without a name`)
      } else this.#members(behind, next)
    }
    const isNested = kind === 'class' || isTemplate
    if (name === undefined || isUnclear || own.includes('<') || own.includes('::')) return
    if (isNested && given === undefined) return
    const start = this.#tokens[at]?.start ?? 0
    const { members, refused } = body
    const comment = commentAbove(this.text, start)
    const key = `mark:${this.file}:${start}`
    if (this.all.leftOut.hasAdded(key)) return
    this.all.structs.push({ name, file: this.file, path, start, comment, members, refused })
    const place = isNested ? (this.#tokens[behind - 1]?.start ?? 0) : (this.#tokens[next - 1]?.end ?? 0)
    this.#edits.push({
      start: place,
      end: place,
      text: ` ${structMark(this.all.structs.length, isNested || given === undefined ? name : `${word} ${name}`, isNested)} `,
      added: { key },
    })
  }

  #refuse(why: string): void {
    const around = this.#open.at(-1)
    if (around !== undefined) around.refused ??= why
  }

  /** Notes the members that a declaration in a struct's body has. */
  #members(at: number, behind: number): void {
    const around = this.#open.at(-1)
    if (around === undefined) return
    if (!around.isPublic) around.refused ??= 'has private members'
    let name: string | undefined
    let isDone = false
    for (let index = at; index < behind; index = this.#closing(index) + 1) {
      const { text } = this.#tokens[index] ?? { text: ';' }
      if (text === '<') index = this.#behindAngles(index, behind) - 1
      else if (text === ':') around.refused ??= 'has a bit field'
      else if (text === ',' || text === ';') {
        if (name !== undefined) around.members.push(name)
        name = undefined
        isDone = false
      } else if (text === '=' || text === '{' || text === '[') isDone = true
      else if (!isDone && /^[A-Za-z_]\w*$/.test(text)) name = text
    }
  }

  #variable(at: number, behind: number, words: ReadonlySet<string>, kind: 'namespace' | 'class'): void {
    if (kind === 'class' && !words.has('static') && !words.has('friend')) {
      this.#members(at, behind)
      this.#audience = 'member'
    }
    if (this.#isForDevice(words)) {
      this.#audience = 'device'
      return
    }
    const texts = this.#tokens.slice(at, behind).map(({ text }) => text)
    const ofHost = texts.some((text, index) => text === 'std' && !isOfDevice(texts[index + 2]))
    if (kind === 'class' && ofHost) this.#refuse('has members of the host')
    const isVariableOfHost = kind === 'namespace' || words.has('static') ? !this.#isConstant(at, behind, words) : false
    if (ofHost || isVariableOfHost) this.#blank(at, behind)
    else {
      const assigned = texts.indexOf('=')
      const name = texts[assigned - 1]
      if (name !== undefined) this.#declare(name)
      // As nvcc, which lets kernels use the value: of `const float` it is a constant only so.
      const constant = texts.indexOf('const')
      const type = texts.slice(0, Math.max(0, assigned - 1))
      const isNumber = type.some((each) => /^(?:float|double)$/.test(each))
      if (kind === 'namespace' && isNumber && type.every((each) => /^(?:const|static|float|double)$/.test(each))) {
        const { start, end } = this.#tokens[at + constant] ?? { start: 0, end: 0 }
        this.#edits.push({ start, end, text: 'constexpr' })
      }
    }
  }

  /** Whether code for the GPU may use a variable that is not marked for it: its value is known where it is declared. */
  #isConstant(at: number, behind: number, words: ReadonlySet<string>): boolean {
    if (words.has('constexpr') || words.has('constinit')) return true
    if (!words.has('const')) return false
    const texts: string[] = []
    for (let index = at; index < behind; index = this.#closing(index) + 1) {
      const { text } = this.#tokens[index] ?? { text: ';' }
      if (/^[=[{;,]$/.test(text)) break
      texts.push(text)
    }
    // A pointer to something constant is none itself.
    const isPointer = texts.lastIndexOf('*') > texts.lastIndexOf('const')
    const isDefined = this.#tokens.slice(at, behind).some(({ text }) => text === '=' || text === '{')
    return !isPointer && (isDefined || !words.has('extern'))
  }

  #function(found: {
    readonly at: number
    readonly parameters: number
    readonly behind: number
    readonly body: boolean
    readonly isTemplate: boolean
    readonly isSpecialization: boolean
    readonly isInstantiation: boolean
    readonly words: ReadonlySet<string>
    readonly path: readonly string[]
  }): void {
    const { at, parameters, behind, words, path } = found
    if (words.has('__global__')) {
      this.#audience = 'device'
      this.#isKernel = true
      const nameStart = this.#nameStart(parameters)
      const start = this.#tokens[nameStart]?.start ?? 0
      const end = this.#tokens[parameters]?.start ?? 0
      const expression = this.text.slice(start, end).trim()
      const kernel = {
        file: this.file,
        start,
        path,
        parameters: this.#parameters(parameters),
        comment: commentAbove(this.text, this.#tokens[at]?.start ?? 0),
      }
      if (found.isTemplate) {
        const known = this.all.templates.get(expression)
        const isOverloaded =
          (known !== undefined && (known.isOverloaded || (known.hasBody && found.body))) ||
          this.all.kernels.some((each) => each.expression === expression)
        const own = { ...kernel, ...this.#deducible(at, parameters), isOverloaded, hasBody: found.body }
        if (found.body || known === undefined) this.all.templates.set(expression, own)
      } else if (found.body || found.isInstantiation) {
        const template = this.all.templates.get(expression)
        if (found.isInstantiation) this.all.instantiated.add(expression.replace(/<[\s\S]*/, '').trim())
        const isPlain = !found.isInstantiation && !found.isSpecialization
        if (template === undefined || isPlain) this.#probe(expression, kernel, behind)
        else this.#probe(`${expression}${this.#declaredArguments(template, parameters)}`, kernel, behind)
        if (template !== undefined && isPlain) this.all.templates.set(expression, { ...template, isOverloaded: true })
      }
      return
    }
    if (this.#isForDevice(words)) {
      this.#audience = words.has('__device__') && !words.has('__host__') ? 'device' : 'both'
      return
    }
    const name = this.#nameStart(parameters)
    if (found.isInstantiation) {
      const template = this.all.hostTemplates.get(this.#tokens[name]?.text ?? '')
      if (template === undefined) return
      const given = this.#is(name + 1, '<') ? this.#listedTexts(name + 1) : []
      const types = this.#declarations(parameters).map((each) => each?.type)
      this.#instantiateWith(template, argumentsOf(template, given, types), behind, undefined)
      this.#blank(at, behind)
      return
    }
    // The compiler takes it for the GPU, too.
    if (words.has('constexpr') || words.has('consteval')) return
    const template = found.isTemplate ? this.#hostTemplate(at, parameters, name) : undefined
    this.#launches(parameters, behind, path, template)
    if (words.has('virtual')) this.#refuse('has virtual functions')
    const declarator = this.#tokens.slice(at, parameters).map(({ text }) => text)
    if (declarator.some((text, index) => text === '(' && declarator[index + 1] === '*'))
      this.#refuse('has a pointer to a function')
    this.#blank(at, behind)
  }

  /** The index of the token at which a name such as 'reduce<float>' begins that stands before a '('. */
  #nameStart(parameters: number): number {
    let at = parameters - 1
    if (this.#is(at, '>')) {
      let depth = 0
      for (; at >= 0; at--) {
        if (this.#is(at, '>')) depth++
        else if (this.#is(at, '<') && --depth === 0) break
      }
      at--
    }
    return Math.max(0, at)
  }

  /**
   * Kernel templates that a function of the host launches, or names, with arguments that mean the same outside of it. Those that need the
   * arguments of the function's own template wait for these.
   */
  #launches(from: number, behind: number, path: readonly string[], own?: HostTemplate): void {
    const namespaces = this.#behindClass === undefined ? path : this.#namespaces
    let usings = ''
    let variables: Variables | undefined
    const variablesHere = (): Variables =>
      (variables ??= variablesOf(this.#declarations(from), this.#tokens.slice(this.#closing(from) + 1, behind)))
    for (let at = from; at < behind; at++) {
      const name = this.#tokens[at]?.text ?? ''
      if (name === 'using') {
        const words = this.#tokens.slice(at, this.#behindStatement(at, behind)).map(({ text }) => text)
        if (!words.includes('=') && words[2] !== 'std') usings += `${spaced(words)} `
      }
      if (this.all.hostTemplates.has(name)) this.#instantiate(at, behind, variablesHere, own)
      const template = this.all.templates.get(name)
      if (template === undefined) continue
      const launched = this.#launched(at)
      const isLaunch = launched !== undefined
      const hasArguments = this.#is(at + 1, '<') && !(this.#is(at + 2, '<') && this.#is(at + 3, '<'))
      if (!hasArguments && !isLaunch) continue
      const given = hasArguments ? this.#listedTexts(at + 1) : []
      const types = isLaunch ? this.#argumentTypes(launched, variablesHere(), own) : []
      const values = argumentsOf(template, given, types)
      const start = this.#tokens[at]?.start ?? 0
      if (values === undefined) {
        if (isLaunch) this.all.addUnclear({ kernel: name, file: this.file, start, why: whyUnclear(template) })
        continue
      }
      const qualified = this.#qualified(at)
      const expression = `${name}<${values.join(', ')}>`
      const written = `${this.text.slice(this.#tokens[qualified]?.start, start)}${expression}`
      this.#add({ expression, written, kernel: template, file: this.file, start, usings, namespaces }, behind, own)
    }
  }

  /**
   * The index of the '(' before the arguments of a launch, from the index of the kernel's name; undefined for a name that is not
   * launched.
   */
  #launched(name: number): number | undefined {
    const isTripled = (at: number, mark: string): boolean => [at, at + 1, at + 2].every((each) => this.#is(each, mark))
    const behind =
      this.#is(name + 1, '<') && !isTripled(name + 1, '<')
        ? this.#behindAngles(name + 1, this.#tokens.length)
        : name + 1
    if (!isTripled(behind, '<')) return undefined
    for (let at = behind + 3; at < this.#tokens.length && !this.#is(at, ';'); at = this.#closing(at) + 1)
      if (isTripled(at, '>')) return this.#is(at + 3, '(') ? at + 3 : undefined
    return undefined
  }

  /** Makes the kernel of a launch, or lets it wait for the arguments of a template that it stands in. */
  #add(launch: TemplateLaunch, behind: number, own: HostTemplate | undefined): void {
    const { expression, written, kernel, file, start, usings } = launch
    if (this.#isKnown(expression)) this.#probe(expression, kernel, behind, written, usings)
    else if (own !== undefined) {
      // The kernel is made where the template is called, which may be in another namespace.
      const around = launch.namespaces.length === 0 ? '' : `using namespace ::${launch.namespaces.join('::')}; `
      own.launches.push({ ...launch, usings: `${around}${usings}`, namespaces: [] })
    } else {
      const why = `names in ${expression} are declared only within the function or its class`
      this.all.addUnclear({ kernel: expression.replace(/<[\s\S]*/, ''), file, start, why })
    }
  }

  /** The kernels of a template of a function of the host whose arguments stand here, or are deduced from those of a call. */
  #instantiate(name: number, behind: number, variables: () => Variables, own?: HostTemplate): void {
    const template = this.all.hostTemplates.get(this.#tokens[name]?.text ?? '')
    const hasArguments = this.#is(name + 1, '<')
    const call = hasArguments ? this.#behindAngles(name + 1, behind) : name + 1
    if (template === undefined || template === own || !this.#is(call, '(')) return
    const given = hasArguments ? this.#listedTexts(name + 1) : []
    const types = this.#argumentTypes(call, variables(), own)
    this.#instantiateWith(template, argumentsOf(template, given, types), behind, own)
  }

  #instantiateWith(
    template: HostTemplate,
    given: readonly string[] | undefined,
    behind: number,
    own: HostTemplate | undefined,
  ): void {
    if (given === undefined) return
    template.isUsed = true
    const values = new Map(template.template.map(({ name }, index) => [name, given[index] ?? name]))
    const filled = (text: string): string => text.replace(/[A-Za-z_]\w*/g, (word) => values.get(word) ?? word)
    for (const launch of template.launches) {
      const [expression, written] = [filled(launch.expression), filled(launch.written)]
      this.#add({ ...launch, expression, written }, behind, own)
    }
  }

  #argumentTypes(open: number, variables: Variables, own?: HostTemplate): readonly (CppType | undefined)[] {
    const types = new Set(own?.template.filter(isType).map(({ name }) => name))
    return this.#parts(open).map((tokens) => typeOfArgument(tokens, variables, types))
  }

  #declarations(parameters: number): readonly (Declaration | undefined)[] {
    return this.#parts(parameters)
      .filter((tokens) => tokens.length > 0)
      .map(declarationOf)
  }

  #deducible(at: number, parameters: number): Omit<Deducible, 'isOverloaded'> {
    return { template: this.#templateParameters(at), declarations: this.#declarations(parameters) }
  }

  #hostTemplate(at: number, parameters: number, name: number): HostTemplate {
    const own = this.#tokens[name]?.text ?? ''
    const known = this.all.hostTemplates.get(own)
    const found = { ...this.#deducible(at, parameters), name: own, launches: [], isUsed: false }
    const made: HostTemplate = { ...found, isOverloaded: (known?.launches.length ?? 0) > 0 }
    this.all.hostTemplates.set(own, made)
    return made
  }

  /** What an instantiation or a specialization leaves out: `template __global__ void scale(float *);` is of `scale<float>`. */
  #declaredArguments(template: Deducible, parameters: number): string {
    const types = this.#declarations(parameters).map((each) => each?.type)
    const values = argumentsOf(template, [], types)
    return values === undefined ? '' : `<${values.join(', ')}>`
  }

  /** Do the arguments of a template mean the same everywhere? */
  #isKnown(expression: string): boolean {
    const words = tokensOf(expression.replace(/^\w+\s*/, '')).tokens
    // What a name that is known has within it, such as an enum's constant, is known, too.
    return words.every(
      ({ text }, index) => KNOWN.test(text) || this.all.declared.has(text) || words[index - 1]?.text === '::',
    )
  }

  #templateParameters(at: number): readonly TemplateParameter[] {
    return this.#listed(at + 1).map((tokens) => {
      const texts = tokens.map(({ text }) => text)
      const value = texts.indexOf('=')
      const own = value < 0 ? texts : texts.slice(0, value)
      return { name: own.at(-1) ?? '', kind: own.slice(0, -1), hasDefault: value >= 0 }
    })
  }

  #listedTexts(open: number): readonly string[] {
    return this.#listed(open).map((tokens) => spaced(tokens.map(({ text }) => text)))
  }

  /** What stands between angle brackets, with commas between. */
  #listed(open: number): readonly (readonly Token[])[] {
    const parts: Token[][] = [[]]
    const behind = this.#behindAngles(open, this.#tokens.length)
    let depth = 0
    for (const token of this.#tokens.slice(open + 1, behind - 1)) {
      if ('<('.includes(token.text)) depth++
      else if ('>)'.includes(token.text)) depth--
      if (token.text === ',' && depth === 0) parts.push([])
      else parts.at(-1)?.push(token)
    }
    return parts
  }

  /** The index of the token at which the namespaces before a name begin. */
  #qualified(name: number): number {
    let first = name
    while (this.#is(first - 1, '::')) first -= /^[A-Za-z_]\w*$/.test(this.#tokens[first - 2]?.text ?? '') ? 2 : 1
    return first
  }

  /** `written` is the expression with what it needs where the probe stands. */
  #probe(
    expression: string,
    kernel: Omit<SourceKernel, 'probe' | 'expression'>,
    behind: number,
    written = expression,
    usings = '',
  ): void {
    const key = [...kernel.path, expression.replace(/\s+/g, '')].join('::')
    const isSecond = this.all.probed.has(key)
    if (expression.includes('<') && isSecond) return
    this.all.probed.add(key)
    const names = this.all.templates.get(expression.replace(/<[\s\S]*/, '').trim())
    const known = {
      ...kernel,
      expression: expression.replace(/\s+/g, ' '),
      parameters: names?.parameters ?? kernel.parameters,
      comment: kernel.comment || (names?.comment ?? ''),
    }
    const added = { key: `probe:${key}:${this.file}:${kernel.start}`, kernel: known }
    if (this.all.leftOut.hasAdded(added.key)) return
    const probe = this.all.kernels.length
    this.all.kernels.push({ probe, ...known })
    // Within a class there is no place for it.
    const end = this.#tokens[(this.#behindClass ?? behind) - 1]?.end ?? this.text.length
    // Its parameters tell it from the one before.
    const parameters = kernel.parameters.map(({ text }) => text.replace(/\s*=[\s\S]*/, '')).join(', ')
    const text = probeOf(probe, written, isSecond ? parameters : undefined)
    const scoped = usings === '' ? text : `namespace cuda_streams_${probe} { ${usings}${text} }`
    this.#edits.push({ start: end, end, text: ` ${onOneLine(scoped)}`, added })
  }

  /** What stands between parentheses, with commas between. */
  #parts(open: number): readonly (readonly Token[])[] {
    const close = this.#closing(open)
    const parts: Token[][] = [[]]
    let angles = 0
    for (let at = open + 1; at < close; at++) {
      const token = this.#tokens[at]
      if (token === undefined) break
      if (token.text === '<') angles++
      else if (token.text === '>') angles--
      const behind = Math.max(at, this.#closing(at))
      if (token.text === ',' && angles === 0) parts.push([])
      else parts.at(-1)?.push(...this.#tokens.slice(at, behind + 1))
      at = behind
    }
    return parts
  }

  #parameters(open: number): readonly SourceParameter[] {
    return this.#parts(open)
      .filter((tokens) => tokens.length > 0 && !(tokens.length === 1 && tokens[0]?.text === 'void'))
      .map((tokens) => {
        const start = tokens[0]?.start ?? 0
        const text = this.text.slice(start, tokens.at(-1)?.end ?? start).replace(/\s+/g, ' ')
        return { name: nameIn(tokens), text, start }
      })
  }

  /** Replaces what is not for the GPU by spaces; preprocessor directives within stay. */
  #blank(at: number, behind: number): void {
    const [start, end] = [this.#tokens[at]?.start ?? 0, this.#tokens[behind - 1]?.end ?? this.text.length]
    let from = start
    const kept = this.#source.directives.filter((each) => each.start >= start && each.start < end)
    for (const { start: to, text } of [...kept, { start: end, text: '' }]) {
      this.#edits.push({ start: from, end: to, text: this.text.slice(from, to).replace(/[^\n]/g, ' ') })
      from = to + text.length
    }
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

/** The arguments of a template that a call names, or that its arguments' types say. */
function argumentsOf(
  { template, declarations, isOverloaded }: Deducible,
  given: readonly string[],
  types: readonly (CppType | undefined)[],
): readonly string[] | undefined {
  if (isOverloaded || template.some(({ kind }) => kind.includes('.'))) return given.length === 0 ? undefined : given
  if (given.length >= template.length) return given
  return deduce(template, declarations, types, given)
}

function whyUnclear({ isOverloaded }: Deducible): string {
  if (isOverloaded) return 'there are several kernels of its name'
  return 'it names no template arguments, and what it passes has no type that is declared in that function'
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
