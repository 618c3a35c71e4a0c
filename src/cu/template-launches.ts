/**
 * Kernels of templates: the launches in functions of the host say their arguments, those of a template of the host once it is called. Behind each
 * kernel stands its probe.
 */
import type { EditedText } from './edited-text.js'
import type { Deducible, FoundInSources, HostTemplate, SourceKernel, TemplateLaunch } from './found-in-sources.js'
import { probeOf } from './signature-probe.js'
import { onOneLine, spaced, tokensOf } from './source-text.js'
import { type CppType, deduce, isType, typeOfArgument, type Variables, variablesOf } from './template-arguments.js'
import type { TokenReader } from './token-reader.js'

/** What an argument of a template may be made of without a declaration in the file. */
const KNOWN =
  /^(?:::|[,<>*&+-]|\d[\w.']*|'.*'|true|false|const|unsigned|signed|char|bool|short|int|long|float|double|half|__half2?|half2|__nv_bfloat16\d?|nv_bfloat16\d?|u?int(?:8|16|32|64)_t|size_t|u?(?:char|short|int|long|longlong)[1-4]|(?:float|double)[1-4]|dim3|std)$/

/** The place of a function that launches. */
interface LaunchPlace {
  /** The namespaces around the function, or around the class that it is in. */
  readonly namespaces: readonly string[]
  /** The index in the text at which probes are put. */
  readonly probesAt: number
}

export class TemplateLaunches {
  constructor(
    private readonly found: FoundInSources,
    private readonly file: string,
    private readonly reader: TokenReader,
    private readonly edits: EditedText,
  ) {}

  /**
   * Makes the kernels of the templates that a function of the host launches, or names, with arguments that mean the same outside of it. Those that
   * need the arguments of the function's own template wait for these.
   */
  read(from: number, behind: number, place: LaunchPlace, own?: HostTemplate): void {
    const { namespaces, probesAt } = place
    let usings = ''
    let variables: Variables | undefined
    const variablesHere = (): Variables =>
      (variables ??= variablesOf(
        this.reader.declarations(from),
        this.reader.tokens.slice(this.reader.closing(from) + 1, behind),
      ))
    for (let at = from; at < behind; at++) {
      const name = this.reader.tokens[at]?.text ?? ''
      if (name === 'using') {
        const words = this.reader.tokens.slice(at, this.reader.behindStatement(at, behind)).map(({ text }) => text)
        if (!words.includes('=') && words[2] !== 'std') usings += `${spaced(words)} `
      }
      if (this.found.hostTemplates.has(name)) this.#instantiate(at, behind, probesAt, variablesHere, own)
      const template = this.found.templates.get(name)
      if (template === undefined) continue
      const launched = this.reader.launched(at)
      const isLaunch = launched !== undefined
      const hasArguments = this.reader.is(at + 1, '<') && !(this.reader.is(at + 2, '<') && this.reader.is(at + 3, '<'))
      if (!hasArguments && !isLaunch) continue
      const given = hasArguments ? this.reader.listedTexts(at + 1) : []
      const types = isLaunch ? this.#argumentTypes(launched, variablesHere(), own) : []
      const values = argumentsOf(template, given, types)
      const start = this.reader.tokens[at]?.start ?? 0
      if (values === undefined) {
        if (isLaunch) this.found.addUnclear({ kernel: name, file: this.file, start, why: whyUnclear(template) })
        continue
      }
      const qualified = this.reader.qualified(at)
      const expression = `${name}<${values.join(', ')}>`
      const written = `${this.edits.text.slice(this.reader.tokens[qualified]?.start, start)}${expression}`
      this.#add({ expression, written, kernel: template, file: this.file, start, usings, namespaces }, probesAt, own)
    }
  }

  /** Makes the kernel of a launch, or lets it wait for the arguments of a template that it stands in. */
  #add(launch: TemplateLaunch, probesAt: number, own: HostTemplate | undefined): void {
    const { expression, written, kernel, file, start, usings } = launch
    if (this.#isKnown(expression)) this.probe(expression, kernel, probesAt, written, usings)
    else if (own !== undefined) {
      // The kernel is made where the template is called, which may be in another namespace.
      const around = launch.namespaces.length === 0 ? '' : `using namespace ::${launch.namespaces.join('::')}; `
      own.launches.push({ ...launch, usings: `${around}${usings}`, namespaces: [] })
    } else {
      const why = `names in ${expression} are declared only within the function or its class`
      this.found.addUnclear({ kernel: expression.replace(/<[\s\S]*/, ''), file, start, why })
    }
  }

  /** The kernels of a template of a function of the host whose arguments stand here, or are deduced from those of a call. */
  #instantiate(
    name: number,
    behind: number,
    probesAt: number,
    variables: () => Variables,
    own: HostTemplate | undefined,
  ): void {
    const template = this.found.hostTemplates.get(this.reader.tokens[name]?.text ?? '')
    const hasArguments = this.reader.is(name + 1, '<')
    const call = hasArguments ? this.reader.behindAngles(name + 1, behind) : name + 1
    if (template === undefined || template === own || !this.reader.is(call, '(')) return
    const given = hasArguments ? this.reader.listedTexts(name + 1) : []
    const types = this.#argumentTypes(call, variables(), own)
    this.#instantiateWith(template, argumentsOf(template, given, types), probesAt, own)
  }

  #instantiateWith(
    template: HostTemplate,
    given: readonly string[] | undefined,
    probesAt: number,
    own: HostTemplate | undefined,
  ): void {
    if (given === undefined) return
    template.isUsed = true
    const values = new Map(template.template.map(({ name }, index) => [name, given[index] ?? name]))
    const filled = (text: string): string => text.replace(/[A-Za-z_]\w*/g, (word) => values.get(word) ?? word)
    for (const launch of template.launches) {
      const [expression, written] = [filled(launch.expression), filled(launch.written)]
      this.#add({ ...launch, expression, written }, probesAt, own)
    }
  }

  /** Makes the kernels of a template of the host that the source instantiates itself. Returns whether there is a template of this name. */
  instantiated(name: number, parameters: number, probesAt: number): boolean {
    const template = this.found.hostTemplates.get(this.reader.tokens[name]?.text ?? '')
    if (template === undefined) return false
    const given = this.reader.is(name + 1, '<') ? this.reader.listedTexts(name + 1) : []
    const types = this.reader.declarations(parameters).map((each) => each?.type)
    this.#instantiateWith(template, argumentsOf(template, given, types), probesAt, undefined)
    return true
  }

  #argumentTypes(open: number, variables: Variables, own?: HostTemplate): readonly (CppType | undefined)[] {
    const types = new Set(own?.template.filter(isType).map(({ name }) => name))
    return this.reader.parts(open).map((tokens) => typeOfArgument(tokens, variables, types))
  }

  /** What the declaration of a template says of its arguments. */
  deducible(at: number, parameters: number): Omit<Deducible, 'isOverloaded'> {
    return { template: this.reader.templateParameters(at), declarations: this.reader.declarations(parameters) }
  }

  /** Notes a template of a function of the host, whose launches are then put into it. */
  hostTemplate(at: number, parameters: number, name: number): HostTemplate {
    const own = this.reader.tokens[name]?.text ?? ''
    const known = this.found.hostTemplates.get(own)
    const found = { ...this.deducible(at, parameters), name: own, launches: [], isUsed: false }
    const made: HostTemplate = { ...found, isOverloaded: (known?.launches.length ?? 0) > 0 }
    this.found.hostTemplates.set(own, made)
    return made
  }

  /** What an instantiation or a specialization leaves out: `template __global__ void scale(float *);` is of `scale<float>`. */
  declaredArguments(template: Deducible, parameters: number): string {
    const types = this.reader.declarations(parameters).map((each) => each?.type)
    const values = argumentsOf(template, [], types)
    return values === undefined ? '' : `<${values.join(', ')}>`
  }

  /** Do the arguments of a template mean the same everywhere? */
  #isKnown(expression: string): boolean {
    const words = tokensOf(expression.replace(/^\w+\s*/, '')).tokens
    // What a name that is known has within it, such as an enum's constant, is known, too.
    return words.every(
      ({ text }, index) => KNOWN.test(text) || this.found.declared.has(text) || words[index - 1]?.text === '::',
    )
  }

  /** Puts the probe of a kernel at a place of the text. `written` is the expression with what it needs where the probe stands. */
  probe(
    expression: string,
    kernel: Omit<SourceKernel, 'probe' | 'expression'>,
    at: number,
    written = expression,
    usings = '',
  ): void {
    const key = [...kernel.path, expression.replace(/\s+/g, '')].join('::')
    const isSecond = this.found.probed.has(key)
    if (expression.includes('<') && isSecond) return
    this.found.probed.add(key)
    const names = this.found.templates.get(expression.replace(/<[\s\S]*/, '').trim())
    const known = {
      ...kernel,
      expression: expression.replace(/\s+/g, ' '),
      parameters: names?.parameters ?? kernel.parameters,
      comment: kernel.comment || (names?.comment ?? ''),
    }
    const added = { key: `probe:${key}:${this.file}:${kernel.start}`, kernel: known }
    if (this.found.leftOut.hasAdded(added.key)) return
    const probe = this.found.kernels.length
    this.found.kernels.push({ probe, ...known })
    // Its parameters tell it from the one before.
    const parameters = kernel.parameters.map(({ text }) => text.replace(/\s*=[\s\S]*/, '')).join(', ')
    const text = probeOf(probe, written, isSecond ? parameters : undefined)
    const scoped = usings === '' ? text : `namespace cuda_streams_${probe} { ${usings}${text} }`
    this.edits.add({ start: at, end: at, text: ` ${onOneLine(scoped)}`, added })
  }
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
