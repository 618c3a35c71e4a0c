/** What is found in the files of one compilation: kernels, structs and templates, and the declarations that another attempt may leave out. */
import type { Declaration, TemplateParameter } from './template-arguments.js'

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

/** What a call of a template needs so that its arguments are deduced. */
export interface Deducible {
  readonly template: readonly TemplateParameter[]
  /** The declarations of the function's parameters; undefined for one that is not understood. */
  readonly declarations: readonly (Declaration | undefined)[]
  /** Whether there are several functions of this name: the compiler decides which one a call means. */
  readonly isOverloaded: boolean
}

export interface KernelTemplate extends Deducible {
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
export interface TemplateLaunch {
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
export interface HostTemplate extends Deducible {
  readonly name: string
  /** The launches whose arguments are known once the template's own are. */
  readonly launches: TemplateLaunch[]
  /** Whether arguments of it are known somewhere. */
  isUsed: boolean
}

/** A probe, or the mark of a struct. */
export interface AddedText {
  /** A key that is the same whenever the file is read. */
  readonly key: string
  /** The kernel that the probe is of; undefined for a mark. */
  readonly kernel?: Omit<SourceKernel, 'probe'>
}

/** What kernels may need of a declaration, or whether the host alone does. */
export type Audience = 'device' | 'both' | 'host' | 'member' | 'scope'

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

/** What was found in files so far, the included ones before those that include them. */
export class FoundInSources {
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

  constructor(readonly leftOut: LeftOut = new LeftOut()) {}

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
