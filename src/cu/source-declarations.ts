/** Scans the declarations of a file: leaves out what is of the host alone, and notes kernels, structs and templates. */
import { stateError } from '../foundation/base/errors.js'
import type { EditedText } from './edited-text.js'
import { audienceOf, isConstant, isForDevice, isOfDevice, isOfFloats, usesHost } from './for-device.js'
import type { Audience, FoundInSources } from './found-in-sources.js'
import { structMark } from './signature-probe.js'
import { commentAbove, positionOf, type SourceTokens, type Token } from './source-text.js'
import { TemplateLaunches } from './template-launches.js'
import { TokenReader } from './token-reader.js'

/** A struct whose body is being read. */
interface OpenStruct {
  readonly members: string[]
  refused: string | undefined
  isPublic: boolean
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
const CLASS = new Set(['class', 'struct', 'union'])

export class SourceDeclarations {
  readonly #tokens: readonly Token[]
  readonly #reader: TokenReader
  readonly #launches: TemplateLaunches
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
    private readonly found: FoundInSources,
    private readonly file: string,
    private readonly source: SourceTokens,
    private readonly edits: EditedText,
  ) {
    this.#tokens = source.tokens
    this.#reader = new TokenReader(edits.text, source)
    this.#launches = new TemplateLaunches(found, file, this.#reader, edits)
  }

  /** Reads the whole file. */
  read(): void {
    this.#readMacros()
    // Without partners of all brackets it is not known where a function ends: the compiler then sees all of it.
    if (this.source.balanced) this.#scope(0, this.#tokens.length, [], 'namespace')
  }

  #readMacros(): void {
    for (const { text } of this.source.directives) {
      const [, name, body] = /^\s*#\s*define\s+(\w+)(?!\()(?:\s+([\s\S]*))?$/.exec(text) ?? []
      if (name === undefined) continue
      this.found.declared.add(name)
      const annotations = (body ?? '').match(/\b(?:__(?:device|global|host|constant|managed|shared)__|constexpr)\b/g)
      const words = (body ?? '').match(/\w+/g) ?? []
      const inner = words.flatMap((word) => this.found.annotations.get(word) ?? [])
      const own = [...(annotations ?? []), ...inner]
      if (own.length > 0) this.found.annotations.set(name, own)
    }
  }

  #scope(from: number, end: number, path: readonly string[], kind: 'namespace' | 'class'): void {
    if (this.#depth === MOST_NESTED) {
      const { line } = positionOf(this.edits.text, this.#tokens[from]?.start ?? 0)
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
    const leftOut = this.found.leftOut.endOf(this.file, start)
    if (leftOut !== undefined) {
      let behind = at + 1
      while (behind < end && (this.#tokens[behind]?.end ?? 0) <= leftOut) behind++
      this.edits.blank(at, behind)
      return behind
    }
    this.#audience = 'host'
    this.#isKernel = false
    const behind = Math.max(at + 1, this.#read(at, end, path, kind))
    const piece = { file: this.file, start, end: this.#tokens[behind - 1]?.end ?? start }
    this.found.pieces.push({ ...piece, audience: this.#audience, isKernel: this.#isKernel })
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
    const inline = text === 'inline' && this.#reader.is(at + 1, 'namespace') ? 1 : 0
    if (this.#reader.is(at + inline, 'namespace')) {
      let open = at + inline + 1
      const names: string[] = []
      for (; open < end && !'{=;'.includes(this.#tokens[open]?.text ?? ';'); open = this.#reader.closing(open) + 1) {
        const name = this.#tokens[open]?.text ?? ''
        if (!/^\w+$/.test(name)) continue
        names.push(name)
        this.found.declared.add(name)
      }
      if (!this.#reader.is(open, '{')) return this.#alias(at, at, end)
      this.#scope(open + 1, this.#reader.closing(open), [...path, ...names], 'namespace')
      this.#audience = 'scope'
      return this.#reader.closing(open) + 1
    }
    if (text === 'extern' && /^"C/.test(this.#tokens[at + 1]?.text ?? '') && this.#reader.is(at + 2, '{')) {
      this.#scope(at + 3, this.#reader.closing(at + 2), path, 'namespace')
      this.#audience = 'scope'
      return this.#reader.closing(at + 2) + 1
    }
    if (/^(?:using|static_assert|asm)$/.test(text)) return this.#alias(at, at, end)
    if (this.#isMacroCall(at, end)) return this.#reader.closing(at + 1) + 1
    return this.#declared(at, end, path, kind)
  }

  /** `using`, `typedef` and the like, which may be a template. Those of the host's own types are not for the GPU. */
  #alias(at: number, head: number, end: number): number {
    const behind = this.#reader.behindStatement(head, end)
    const names = this.#tokens.slice(head, behind).map(({ text }) => text)
    for (const [index, name] of names.entries()) {
      if (name !== 'std' || names[index + 1] !== '::') continue
      if (isOfDevice(names[index + 2])) continue
      this.edits.blank(at, behind)
      return behind
    }
    const named = /^(?:using|concept|namespace)$/.test(names[0] ?? '') ? names[1] : names.at(-2)
    if (named !== undefined) this.#declare(named)
    return behind
  }

  /** A macro that is called where a declaration begins, without a ';' behind it. */
  #isMacroCall(at: number, end: number): boolean {
    if (!/^[A-Z_][A-Z0-9_]+$/.test(this.#tokens[at]?.text ?? '') || !this.#reader.is(at + 1, '(')) return false
    const behind = this.#reader.closing(at + 1) + 1
    return behind < end && /^\w/.test(this.#tokens[behind]?.text ?? '')
  }

  #declared(at: number, end: number, path: readonly string[], kind: 'namespace' | 'class'): number {
    let head = at
    while (this.#reader.is(head, 'template') && this.#reader.is(head + 1, '<'))
      head = this.#reader.behindAngles(head + 1, end)
    if (/^(?:using|concept)$/.test(this.#tokens[head]?.text ?? '')) return this.#alias(at, head, end)
    const isSpecialization = head > at && this.#reader.is(at + 2, '>')
    const isTemplate = head > at && !isSpecialization
    const isInstantiation =
      this.#reader.is(head, 'template') || (this.#reader.is(head, 'extern') && this.#reader.is(head + 1, 'template'))
    let isClass = false
    let isEnum = false
    let isTypedef = false
    let parameters: number | undefined
    const words = new Set<string>()
    for (let index = head; index < end; index++) {
      const { text } = this.#tokens[index] ?? { text: '' }
      const before = this.#tokens[index - 1]?.text ?? ''
      if (/^\w/.test(text)) {
        for (const word of [text, ...(this.found.annotations.get(text) ?? [])]) words.add(word)
        isClass ||= CLASS.has(text) && parameters === undefined
        isEnum ||= text === 'enum'
        isTypedef ||= text === 'typedef'
        if (text !== 'operator') continue
        // The operator's own marks are no list of parameters.
        index++
        if (this.#reader.is(index, '(')) index = this.#reader.closing(index)
        while (index + 1 < end && !this.#reader.is(index + 1, '(')) index++
      } else if (text === '<' && /^\w/.test(before) && before !== 'operator') {
        const behind = this.#reader.behindAngles(index, end)
        if (behind < end) index = behind - 1
      } else if (text === '(') {
        if (!ATTRIBUTES.has(before)) parameters = index
        index = this.#reader.closing(index)
      } else if (text === '[') index = this.#reader.closing(index)
      else if (text === ':' && parameters !== undefined) {
        // Initializers of members stand before the body.
        for (index++; index < end; index++) {
          if (!'({'.includes(this.#tokens[index]?.text ?? ' ')) continue
          index = this.#reader.closing(index)
          if (!this.#reader.is(index + 1, ',')) break
        }
      } else if (text === '=') {
        const behind = this.#reader.behindStatement(index, end)
        if (parameters !== undefined) {
          const set = this.#tokens[index + 1]?.text ?? ''
          if (/^(?:default|delete|0)$/.test(set)) {
            if (words.has('virtual')) this.#refuse('has virtual functions')
            // The table of virtual functions is the host's.
            if (!isForDevice(words) && (words.has('virtual') || set === '0')) this.edits.blank(at, behind)
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
        const behind = this.#reader.closing(index) + 1
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
          const next = this.#reader.is(behind, ';') ? behind + 1 : this.#reader.behindStatement(behind, end)
          this.#struct({ at, head, open: index, behind, next, isTypedef, isTemplate, path, kind })
          // What follows declares a variable of it, or a type.
          const isVariable = next > behind + 1 && !isTypedef && kind === 'namespace'
          if (isVariable && !isForDevice(words) && !words.has('const') && !words.has('constexpr')) {
            this.edits.blank(behind, next - 1)
          }
          return next
        }
        if (isEnum) {
          this.#declareType(head)
          if (kind === 'class' && !this.#reader.is(behind, ';'))
            this.#refuse('a member of an enum that is declared with it')
          const next = this.#reader.behindStatement(behind, end)
          if (kind === 'namespace' && !isTypedef && !isForDevice(words)) this.edits.blank(behind, next - 1)
        } else this.#variable(at, this.#reader.behindStatement(index, end), words, kind)
        return this.#reader.behindStatement(behind, end)
      }
    }
    return end
  }

  /** What a class has within it, only its members call so. */
  #declare(name: string): void {
    if (this.#behindClass === undefined) this.found.declared.add(name)
  }

  /** What stands between angle brackets of a specialization is not what it declares. */
  #declareType(head: number): void {
    for (
      let at = head;
      at < this.#tokens.length && !/^[{:;<]$/.test(this.#tokens[at]?.text ?? ';');
      at = this.#reader.closing(at) + 1
    )
      this.#declare(this.#tokens[at]?.text ?? '')
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
      if (this.#reader.is(behind, ';')) {
        if (name === undefined) this.#refuse(`has ${word === 'union' ? 'a union' : 'a struct'} without a name`)
      } else this.#members(behind, next)
    }
    const isNested = kind === 'class' || isTemplate
    if (name === undefined || isUnclear || own.includes('<') || own.includes('::')) return
    if (isNested && given === undefined) return
    const start = this.#tokens[at]?.start ?? 0
    const { members, refused } = body
    const comment = commentAbove(this.edits.text, start)
    const key = `mark:${this.file}:${start}`
    if (this.found.leftOut.hasAdded(key)) return
    this.found.structs.push({ name, file: this.file, path, start, comment, members, refused })
    const place = isNested ? (this.#tokens[behind - 1]?.start ?? 0) : (this.#tokens[next - 1]?.end ?? 0)
    this.edits.add({
      start: place,
      end: place,
      text: ` ${structMark(this.found.structs.length, isNested || given === undefined ? name : `${word} ${name}`, isNested)} `,
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
    for (let index = at; index < behind; index = this.#reader.closing(index) + 1) {
      const { text } = this.#tokens[index] ?? { text: ';' }
      if (text === '<') index = this.#reader.behindAngles(index, behind) - 1
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
    if (isForDevice(words)) {
      this.#audience = 'device'
      return
    }
    const texts = this.#tokens.slice(at, behind).map(({ text }) => text)
    const ofHost = usesHost(texts)
    if (kind === 'class' && ofHost) this.#refuse('has members of the host')
    const isVariableOfHost =
      kind === 'namespace' || words.has('static') ? !isConstant(this.#reader, at, behind, words) : false
    if (ofHost || isVariableOfHost) this.edits.blank(at, behind)
    else {
      const assigned = texts.indexOf('=')
      const name = texts[assigned - 1]
      if (name !== undefined) this.#declare(name)
      // As nvcc, which lets kernels use the value: of `const float` it is a constant only so.
      const constant = texts.indexOf('const')
      const type = texts.slice(0, Math.max(0, assigned - 1))
      if (kind === 'namespace' && isOfFloats(type)) {
        const { start, end } = this.#tokens[at + constant] ?? { start: 0, end: 0 }
        this.edits.add({ start, end, text: 'constexpr' })
      }
    }
  }

  /** The index in the text behind a declaration, at which its probes are put: within a class there is no place for them. */
  #probesAt(behind: number): number {
    return this.#tokens[(this.#behindClass ?? behind) - 1]?.end ?? this.edits.text.length
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
      const nameStart = this.#reader.nameStart(parameters)
      const start = this.#tokens[nameStart]?.start ?? 0
      const end = this.#tokens[parameters]?.start ?? 0
      const expression = this.edits.text.slice(start, end).trim()
      const kernel = {
        file: this.file,
        start,
        path,
        parameters: this.#reader.parameters(parameters),
        comment: commentAbove(this.edits.text, this.#tokens[at]?.start ?? 0),
      }
      if (found.isTemplate) {
        const known = this.found.templates.get(expression)
        const isOverloaded =
          (known !== undefined && (known.isOverloaded || (known.hasBody && found.body))) ||
          this.found.kernels.some((each) => each.expression === expression)
        const own = { ...kernel, ...this.#launches.deducible(at, parameters), isOverloaded, hasBody: found.body }
        if (found.body || known === undefined) this.found.templates.set(expression, own)
      } else if (found.body || found.isInstantiation) {
        const template = this.found.templates.get(expression)
        const probesAt = this.#probesAt(behind)
        if (found.isInstantiation) this.found.instantiated.add(expression.replace(/<[\s\S]*/, '').trim())
        const isPlain = !found.isInstantiation && !found.isSpecialization
        if (template === undefined || isPlain) this.#launches.probe(expression, kernel, probesAt)
        else {
          const given = this.#launches.declaredArguments(template, parameters)
          this.#launches.probe(`${expression}${given}`, kernel, probesAt)
        }
        if (template !== undefined && isPlain) this.found.templates.set(expression, { ...template, isOverloaded: true })
      }
      return
    }
    if (isForDevice(words)) {
      this.#audience = audienceOf(words)
      return
    }
    const name = this.#reader.nameStart(parameters)
    if (found.isInstantiation) {
      if (this.#launches.instantiated(name, parameters, this.#probesAt(behind))) this.edits.blank(at, behind)
      return
    }
    // The compiler takes it for the GPU, too.
    if (words.has('constexpr') || words.has('consteval')) return
    const template = found.isTemplate ? this.#launches.hostTemplate(at, parameters, name) : undefined
    const namespaces = this.#behindClass === undefined ? path : this.#namespaces
    this.#launches.read(parameters, behind, { namespaces, probesAt: this.#probesAt(behind) }, template)
    if (words.has('virtual')) this.#refuse('has virtual functions')
    const declarator = this.#tokens.slice(at, parameters).map(({ text }) => text)
    if (declarator.some((text, index) => text === '(' && declarator[index + 1] === '*'))
      this.#refuse('has a pointer to a function')
    this.edits.blank(at, behind)
  }
}
