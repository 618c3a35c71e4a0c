/** The syntax tree of PTX text, as the parser returns it. */
import { stateError } from '../foundation/base/errors.js'

/** A line of a source file, as `.loc` gives it. */
export interface SourceLine {
  readonly file: string
  readonly line: number
}

export interface Register {
  /** The number of the register within its function. */
  readonly id: number
  readonly name: string
  /** The declared type without its dot, such as 'b32' or 'pred'. */
  readonly type: string
}

export type StateSpace = 'global' | 'const' | 'shared' | 'local' | 'param'

/** The bytes of a variable that the text gives, or the address of a symbol to be put there. */
export interface InitialValue {
  readonly offset: number
  readonly bytes: number
  readonly value: bigint
  readonly symbol?: string
}

export interface Variable {
  readonly name: string
  readonly space: StateSpace
  /** The type of an element, such as 'b8'. */
  readonly type: string
  readonly alignment: number
  /** The bytes of the variable; 0 for an array of no given length, such as dynamic shared memory. */
  readonly byteLength: number
  readonly initial: readonly InitialValue[]
  readonly external: boolean
  readonly line: number
  /** The address space and the alignment that `.ptr` gives a kernel's parameter. */
  readonly pointer?: { readonly space: string; readonly alignment: number }
}

export interface AddressOperand {
  readonly kind: 'address'
  readonly base: Operand
  readonly offset: bigint
  /** What stands in the brackets behind the address, such as the coordinates of a tensor map. */
  readonly coordinates?: readonly Operand[]
}

export type Operand =
  | { readonly kind: 'register'; readonly register: Register }
  | { readonly kind: 'special'; readonly name: string }
  | { readonly kind: 'integer'; readonly value: bigint }
  | { readonly kind: 'float'; readonly value: number; readonly bits: bigint; readonly width: 32 | 64 | 0 }
  /** The address of a variable or function, or a label. */
  | { readonly kind: 'symbol'; readonly name: string; readonly variable: Variable | undefined; readonly offset: bigint }
  | AddressOperand
  | { readonly kind: 'vector'; readonly items: readonly Operand[] }
  | { readonly kind: 'pair'; readonly first: Operand; readonly second: Operand }
  | { readonly kind: 'not'; readonly operand: Operand }
  | { readonly kind: 'list'; readonly items: readonly Operand[] }
  | { readonly kind: 'sink' }

/** A block in braces: names declared inside are not visible outside. */
export interface Scope {
  readonly outer: Scope | undefined
  readonly registers: Map<string, Register>
  /** The registers declared as `%r<10>`, and the parts that each has; keys are the names before the number. */
  readonly ranges: Map<string, { readonly type: string; readonly count: number; readonly vector: number }>
  /** The least number behind each beginning of the names of single registers: `%r12` is 12 behind `%r`, and 2 behind `%r1`. */
  readonly numbered: Map<string, number>
  readonly variables: Map<string, Variable>
  readonly labels: Map<string, number>
  readonly prototypes: Map<string, Prototype>
  readonly targets: Map<string, readonly string[]>
}

export interface Prototype {
  readonly results: readonly Variable[]
  readonly parameters: readonly Variable[]
}

export interface Instruction {
  /** The opcode with its modifiers in the order of the table of forms, whatever order the text has. */
  readonly opcode: string
  readonly guard: { readonly register: Register; readonly negated: boolean } | undefined
  readonly operands: readonly Operand[]
  readonly scope: Scope
  /** The line in the PTX. */
  readonly line: number
  readonly source: SourceLine | undefined
}

export interface PtxFunction extends Prototype {
  readonly name: string
  readonly entry: boolean
  readonly line: number
  /** Whether the function has a body. To ask this reads none, as to look at the body may. */
  readonly isDefined: boolean
  /** The instructions; undefined for a declaration. The body of a large text is read when it, the registers or the variables are looked at first. */
  readonly body: readonly Instruction[] | undefined
  readonly registers: readonly Register[]
  /** The variables declared in the body. */
  readonly variables: readonly Variable[]
  /** The parameters that are registers; keys are their names. */
  readonly parameterRegisters: ReadonlyMap<string, Register>
  /** The numbers of the directives `.maxntid`, `.reqntid`, `.minnctapersm` and others; keys are the directives. */
  readonly directives: ReadonlyMap<string, readonly number[]>
}

export interface PtxText {
  /** The PTX version, such as '8.7'. */
  readonly version: string
  /** The target, such as 'sm_90a'. */
  readonly target: string
  readonly variables: ReadonlyMap<string, Variable>
  readonly functions: ReadonlyMap<string, PtxFunction>
  /** The other names of functions. */
  readonly aliases: ReadonlyMap<string, string>
}

/** A position in the text, and in the source it was made from. */
export interface Place {
  readonly line: number
  readonly source?: SourceLine | undefined
}

export type PtxError = Error & { code: string; line: number; source: SourceLine | undefined }

export function inWords({ line, source }: Place): string {
  return source === undefined ? `line ${line} of the PTX` : `line ${line} of the PTX (${source.file}:${source.line})`
}

/** The error for code that cannot be read (ERR_COMPILATION), or that this compiler does not know (ERR_UNSUPPORTED). */
export function ptxError(code: 'ERR_COMPILATION' | 'ERR_UNSUPPORTED', message: string, place: Place): PtxError {
  return Object.assign(stateError(code, `${message}, at ${inWords(place)}`), {
    line: place.line,
    source: place.source,
  })
}

/** The bits of the types of all instructions. */
const WIDTHS: ReadonlyMap<string, number> = new Map([
  ...['b', 's', 'u', 'f'].flatMap((kind) => [8, 16, 32, 64, 128].map((bits) => [`${kind}${bits}`, bits] as const)),
  ['pred', 1],
  ['e4m3x2', 16],
  ['e5m2x2', 16],
  ['e2m1x2', 8],
  ['e2m3x2', 16],
  ['e3m2x2', 16],
  ['ue8m0x2', 16],
  ['bf16', 16],
  ['f16x2', 32],
  ['f32x2', 64],
  ['bf16x2', 32],
  ['tf32', 32],
  ['e4m3', 8],
  ['e5m2', 8],
  ['u16x2', 32],
  ['s16x2', 32],
])

/** The bits of a type, such as 32 for 'u32'; 0 for a name that is no type. */
export function bitsOf(type: string): number {
  return WIDTHS.get(type) ?? 0
}
