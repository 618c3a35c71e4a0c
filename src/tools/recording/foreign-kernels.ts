/**
 * The accesses of a kernel of another library to the memory that its arguments point to, according to its PTX, a table of known libraries, or the
 * types in its C++ name.
 */
import type { PointerUse } from '../../ptx/facts.js'
import { readKernelFacts } from '../../ptx/ptx.js'
import { nameOfMangled, shortened } from './kernel-names.js'

/** An argument, or a word of one that is a structure, that is an address in allocated memory. */
export interface KernelPointer {
  readonly parameter: number
  /** The bytes from the beginning of the parameter. */
  readonly offset: number
  readonly pointer: number
}

/** The access through an argument. 'either': the kernel reads or writes there, and it is not known which. */
export type ForeignAccess = 'in' | 'out' | 'inout' | 'either'

/** The kernels of a library, with their accesses. */
interface KnownKernels {
  readonly library: string
  readonly name: RegExp
  /** The access of each pointer, in the order of the arguments; the last one is that of all others. `last`: the last pointer is written. */
  readonly accesses?: readonly ForeignAccess[] | 'last'
}

/**
 * The known libraries. PyTorch's elementwise kernels have their pointers in an array, whose first is the output; reductions have the source before.
 */
const KNOWN: readonly KnownKernels[] = [
  { library: 'PyTorch', name: /^at::native::.*reduce_kernel/, accesses: ['in', 'out'] },
  { library: 'PyTorch', name: /^at::native::.*elementwise_kernel/, accesses: ['out', 'in'] },
  { library: 'PyTorch', name: /^(?:at|c10|torch)::/ },
  { library: 'CuPy', name: /^cupy_/, accesses: 'last' },
  { library: 'NCCL', name: /^nccl/i },
  // The convolutions of cuDNN are products of matrices, and named so.
  { library: 'cuDNN', name: /cudnn|implicit_convolve/i },
  { library: 'cuBLAS', name: /gemm|gemv|cublas|cutlass|nvjet/i },
]

export class ForeignKernel {
  /** The name in reports, without what is in angle brackets and parentheses, and without its middle if it is long. */
  readonly title: string
  /** The same without the library and quotes. */
  readonly called: string
  readonly #types: readonly string[]
  readonly #known: KnownKernels | undefined

  constructor(
    readonly name: string,
    /** The demangled name; empty for a name of C. */
    readonly readable: string,
    /** The use of each parameter, as the kernel's text says. */
    private readonly uses: readonly PointerUse[] | undefined,
  ) {
    const whole = nameIn(readable) || nameOfMangled(name)
    this.#known = KNOWN.find((known) => known.name.test(whole))
    this.called = shortened(whole)
    const quoted = `'${this.called}'`
    this.title = this.#known === undefined ? quoted : `${quoted} of ${this.#known.library}`
    this.#types = typesIn(readable)
  }

  accesses(pointers: readonly KernelPointer[]): readonly ForeignAccess[] {
    return pointers.map(({ parameter, offset }, at) => {
      const use = offset === 0 ? this.uses?.[parameter] : undefined
      if (use !== undefined && use !== 'unknown') return ACCESSES[use]
      return this.#ofLibrary(at, pointers.length) ?? this.#byTypes(parameter, offset, pointers)
    })
  }

  #ofLibrary(at: number, count: number): ForeignAccess | undefined {
    const accesses = this.#known?.accesses
    if (accesses === 'last') return at === count - 1 ? 'out' : 'in'
    return accesses?.[Math.min(at, accesses.length - 1)]
  }

  /**
   * The access according to types. An author who writes `const` for what is only read writes to the rest; and a kernel that has one pointer writes
   * there.
   */
  #byTypes(parameter: number, offset: number, pointers: readonly KernelPointer[]): ForeignAccess {
    const type = offset === 0 ? this.#types[parameter] : undefined
    if (type !== undefined && isReadOnly(type)) return 'in'
    if (this.#known !== undefined) return 'either'
    if (pointers.length === 1) return 'out'
    const saysConst = this.#types.some(isReadOnly)
    return saysConst && type?.endsWith('*') === true ? 'out' : 'either'
  }
}

const ACCESSES = { none: 'in', read: 'in', write: 'out', 'read-write': 'inout' } as const

/** Whether a type points to constants, as `float const*` does. */
const isReadOnly = (type: string): boolean => /\bconst\s*\*$/.test(type)

/** The name of a function: that of `void ns::kernel<float>(float const*, int)` is `ns::kernel`. */
function nameIn(readable: string): string {
  const [before = ''] = withoutAngles(readable.replaceAll('(anonymous namespace)', 'anonymous')).split('(')
  return before.slice(before.lastIndexOf(' ') + 1)
}

/** The types of the parameters, which are in the last parentheses. */
function typesIn(readable: string): readonly string[] {
  if (!readable.endsWith(')')) return []
  let depth = 0
  let begin = readable.length - 1
  for (; begin >= 0; begin -= 1) {
    if (readable[begin] === ')') depth += 1
    if (readable[begin] === '(') depth -= 1
    if (depth === 0) break
  }
  const types = ['']
  for (const letter of readable.slice(begin + 1, -1)) {
    if ('<([{'.includes(letter)) depth += 1
    if ('>)]}'.includes(letter)) depth -= 1
    if (letter === ',' && depth === 0) types.push('')
    else types.push(`${types.pop()}${letter}`)
  }
  return types.map((type) => type.trim())
}

function withoutAngles(text: string): string {
  let depth = 0
  let rest = ''
  for (const letter of text) {
    if (letter === '<') depth += 1
    if (depth === 0) rest += letter
    if (letter === '>') depth -= 1
  }
  return rest
}

/** The uses of each kernel's parameters in a text of PTX; keys are the kernels' names. The result is empty if the text cannot be read. */
export function usesInPtx(text: string): ReadonlyMap<string, readonly PointerUse[]> {
  try {
    const known = [...readKernelFacts(text)].flatMap(([name, facts]) =>
      facts instanceof Error ? [] : [[name, facts.parameters.map(({ use }) => use)] as const],
    )
    return new Map(known)
  } catch {
    return new Map()
  }
}
