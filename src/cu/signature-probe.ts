/**
 * What a kernel's parameters are is for the compiler to say, since only it knows what a name of a type or an argument of a template stands
 * for. A probe is two variables behind a kernel: its address, which gives its name in the PTX, and its parameters as numbers. Both are read
 * from the PTX, and removed. The names of a struct's members are in the source; behind it stands a function whose result is its number.
 */
import { elementType, SCALAR_TYPES, type ScalarType, type VectorType } from '../foundation/base/element-types.js'

/** A type in the library's terms, as far as the compiler says it. */
export type ProbedValue =
  | { readonly kind: 'named'; readonly name: ScalarType | VectorType }
  | { readonly kind: 'array'; readonly length: number; readonly element: ProbedValue }
  | ProbedStruct
  | { readonly kind: 'pointer' }
  /** A union, a struct that the source does not show, void and the like. */
  | { readonly kind: 'unknown' }

export interface ProbedStruct {
  readonly kind: 'struct'
  /** The struct's place among the structs of the source, from 1. */
  readonly number: number
  readonly byteLength: number
  readonly alignment: number
  /**
   * The struct's members in the order of the source; undefined for one that the compiler does not have, since a condition leaves
   * it out.
   */
  readonly members: readonly ({ readonly offset: number; readonly type: ProbedValue } | undefined)[]
}

/** The kinds of pointers, by the number that a probe has for each. */
const POINTERS = ['none', 'pointer', 'pointer to const', 'reference'] as const

export interface ProbedType {
  /** What it is, or what it points to. */
  readonly value: ProbedValue
  readonly pointer: (typeof POINTERS)[number]
}

export interface Probed {
  /** The kernel's name in the PTX. */
  readonly name: string
  readonly parameters: readonly ProbedType[]
}

/** What the numbers begin with, besides those of scalars: their places in SCALAR_TYPES, from 1. */
const UNKNOWN = 0
const VECTOR = 100
const ARRAY = 101
const STRUCT = 102
const POINTER = 103

/** The names that types have in C++. */
const NAMES: { readonly [T in ScalarType]: readonly string[] } = {
  bool: ['bool'],
  i8: ['char', 'signed char'],
  u8: ['unsigned char'],
  i16: ['short'],
  u16: ['unsigned short'],
  i32: ['int'],
  u32: ['unsigned int'],
  i64: ['long long'],
  u64: ['unsigned long long'],
  f16: ['::__half'],
  bf16: ['::__nv_bfloat16'],
  f32: ['float'],
  f64: ['double'],
}
const VECTOR_NAMES: { readonly [T in ScalarType]?: string } = {
  i8: 'char',
  u8: 'uchar',
  i16: 'short',
  u16: 'ushort',
  i32: 'int',
  u32: 'uint',
  i64: 'longlong',
  u64: 'ulonglong',
  f16: '__half',
  bf16: '__nv_bfloat16',
  f32: 'float',
  f64: 'double',
}
const numberOf = (scalar: ScalarType): number => 1 + SCALAR_TYPES.indexOf(scalar)

const known = (type: string, numbers: string): string =>
  `template <> struct described<${type}> { typedef ${numbers} type; };`

function specializations(): string {
  const one = (scalar: ScalarType): string => `bytes<${numberOf(scalar)}>`
  const plain = SCALAR_TYPES.flatMap((scalar) => NAMES[scalar].map((name) => known(name, one(scalar))))
  const vectors = SCALAR_TYPES.flatMap((scalar) => {
    const { lanes = [], bytes } = elementType(scalar)
    const name = VECTOR_NAMES[scalar]
    if (name === undefined) return []
    const isPairOnly = scalar === 'f16' || scalar === 'bf16'
    return [
      ...(isPairOnly ? [] : [known(`::${name}1`, one(scalar))]),
      // Of double4 and the like some toolkits say at each use that they are deprecated.
      ...lanes
        .filter((count) => bytes * count <= 24)
        .map((count) => known(`::${name}${count}`, `bytes<${VECTOR}, ${count}, ${numberOf(scalar)}>`)),
    ]
  })
  // Of 8 bytes on Linux, 4 on Windows.
  const longs = [
    known('long', `bytes<sizeof(long) == 8 ? ${numberOf('i64')} : ${numberOf('i32')}>`),
    known('unsigned long', `bytes<sizeof(long) == 8 ? ${numberOf('u64')} : ${numberOf('u32')}>`),
    known('::dim3', `bytes<${VECTOR}, 3, ${numberOf('u32')}>`),
  ]
  return [...plain, ...vectors, ...longs].join('\n')
}

const MODIFIED = ['const', 'volatile', 'const volatile']

/**
 * The macro that is defined when machine code is made: that code gets the instances of templates that the probes name, and no
 * variables.
 */
const NO_VARIABLES = 'cuda_streams_no_variables'
export const withoutVariables: readonly string[] = [`-D${NO_VARIABLES}`]

/**
 * The declarations of the probes, which stand before the source. `members` are those of its structs, in their order. C++11 reads
 * it.
 */
export const probeDeclarations = (members: readonly (readonly string[])[]): string => `#ifdef ${NO_VARIABLES}
#define cuda_streams_probe_as(CsN, CsT, ...) static __device__ void cuda_streams_kernel_##CsN() { CsT *kernel = &__VA_ARGS__; (void)kernel; }
#else
#define cuda_streams_probe_as(CsN, CsT, ...) extern "C" { __attribute__((used)) __device__ ::cuda_streams::signature<CsT>::type cuda_streams_signature_##CsN = ::cuda_streams::signature<CsT>::value; __attribute__((used)) __device__ CsT* cuda_streams_kernel_##CsN = &__VA_ARGS__; }
#endif
#define cuda_streams_probe(CsN, ...) cuda_streams_probe_as(CsN, decltype(__VA_ARGS__), __VA_ARGS__)
// NVRTC 12.0 lacks the other: there no member of a struct that a kernel takes may have an operator & of its own.
#if __CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 4
#define cuda_streams_address(...) &__VA_ARGS__
#else
#define cuda_streams_address(...) __builtin_addressof(__VA_ARGS__)
#endif
struct __half; struct __half2; struct __nv_bfloat16; struct __nv_bfloat162;
namespace cuda_streams {
template <unsigned char... CsB> struct bytes {};
template <unsigned CsN> struct word { typedef bytes<(CsN & 255), (CsN >> 8 & 255), (CsN >> 16 & 255), (CsN >> 24)> type; };
template <class... CsA> struct joined { typedef bytes<> type; };
template <unsigned char... CsB> struct joined<bytes<CsB...>> { typedef bytes<CsB...> type; };
template <unsigned char... CsB, unsigned char... CsC, class... CsA> struct joined<bytes<CsB...>, bytes<CsC...>, CsA...> : joined<bytes<CsB..., CsC...>, CsA...> {};
template <class CsT> struct tag {};
template <unsigned CsN> struct number { enum : unsigned { value = CsN }; };
__device__ number<0> cuda_streams_struct(...);
template <class CsT, class CsV = void> struct number_of : number<0> {};
template <class CsT> struct number_of<CsT, decltype(void(sizeof(CsT)))> : decltype(cuda_streams_struct(tag<CsT>())) {};
template <class CsT, unsigned CsN, bool CsE> struct by_number;
template <class CsT> struct described : by_number<CsT, number_of<CsT>::value, __is_enum(CsT)> {};
${specializations()}
${MODIFIED.map((cv) => `template <class CsT> struct described<${cv} CsT> : described<CsT> {};`).join('\n')}
template <class CsT> struct described<CsT*> { typedef bytes<${POINTER}> type; };
${['', ...MODIFIED]
  .map(
    (cv) =>
      `template <class CsT, decltype(sizeof(0)) CsN> struct described<${cv} CsT[CsN]> : joined<bytes<${ARRAY}>, typename word<CsN>::type, typename described<CsT>::type> {};`,
  )
  .join('\n')}
template <class CsT, class CsV = void> struct is_empty : number<0> {};
template <class CsT> struct is_empty<CsT, decltype(void(sizeof(CsT)))> : number<__is_empty(CsT)> {};
template <class CsT> struct by_number<CsT, 0, false> { typedef bytes<(is_empty<CsT>::value ? ${numberOf('u8')} : ${UNKNOWN})> type; };
template <class CsT> struct by_number<CsT, 0, true> { typedef bytes<(sizeof(CsT) == 1 ? ${numberOf('u8')} : sizeof(CsT) == 2 ? ${numberOf('u16')} : sizeof(CsT) == 8 ? ${numberOf('i64')} : ${numberOf('i32')})> type; };
template <class CsT> struct parameter : joined<bytes<0>, typename described<CsT>::type> {};
template <class CsT> struct parameter<CsT*> : joined<bytes<1>, typename described<CsT>::type> {};
template <class CsT> struct parameter<const CsT*> : joined<bytes<2>, typename described<CsT>::type> {};
template <class CsT> struct parameter<const volatile CsT*> : joined<bytes<2>, typename described<CsT>::type> {};
template <class CsT> struct parameter<CsT&> : joined<bytes<3>, typename described<CsT>::type> {};
template <unsigned CsN> struct numbers { unsigned char of[CsN]; };
template <class CsT> struct made;
template <unsigned char... CsB> struct made<bytes<CsB...>> {
  typedef numbers<sizeof...(CsB)> type;
  static constexpr type value = {{ CsB... }};
};
template <class CsT> struct signature;
template <class... CsA> struct signature<void(CsA...)> : made<typename joined<bytes<sizeof...(CsA)>, typename parameter<CsA>::type..., bytes<255>>::type> {};
${members.map((names, index) => structDeclarations(index + 1, names)).join('\n')}
}
`

/**
 * The offset is a constant by __INTADDR__, of which all versions of NVRTC make `offsetof`: those before 13.5 have no __builtin_offsetof. In a
 * template's argument NVRTC 12.0 takes the bracket behind it for "greater than".
 */
function structDeclarations(number: number, names: readonly string[]): string {
  const members = names.map(
    (
      name,
      index,
    ) => `template <class CsT> struct offset_${number}_${index} { enum : unsigned { value = __INTADDR__(cuda_streams_address(((CsT*)0)->${name})) }; };
template <class CsT, class CsV = void> struct member_${number}_${index} { typedef bytes<0> type; };
template <class CsT> struct member_${number}_${index}<CsT, decltype(void(sizeof(decltype(CsT::${name}))))> : joined<bytes<1>, typename word<offset_${number}_${index}<CsT>::value>::type, typename described<decltype(CsT::${name})>::type> {};`,
  )
  const types = names.map((_, index) => `, typename member_${number}_${index}<CsT>::type`)
  return [
    ...members,
    `template <class CsT> struct by_number<CsT, ${number}, false> : joined<bytes<${STRUCT}>, typename word<${number}>::type, typename word<sizeof(CsT)>::type, typename word<alignof(CsT)>::type, typename word<${names.length}>::type${types.join('')}> {};`,
  ].join('\n')
}

/**
 * Says the number of a struct: behind it, or within it, where a template's arguments are known. The compiler finds the function by the
 * namespace of its argument.
 * @param name With the word `struct` where a function may have the same name.
 */
export function structMark(number: number, name: string, isWithin: boolean): string {
  const mark = `__device__ ::cuda_streams::number<${number}> cuda_streams_struct(::cuda_streams::tag<${name}>);`
  return isWithin ? `friend ${mark}` : `extern "C++" { ${mark} }`
}

/**
 * The probe of a kernel, in the scope where it is declared.
 * @param parameters Those by which it is told from others of its name.
 */
export const probeOf = (number: number, expression: string, parameters?: string): string =>
  parameters === undefined
    ? `cuda_streams_probe(${number}, ${expression})`
    : `typedef void cuda_streams_type_${number}(${parameters}); cuda_streams_probe_as(${number}, cuda_streams_type_${number}, ${expression})`

const ADDRESS = /^\.\S.* \w*?cuda_streams_kernel_(\d+)E? = (\S+);$/gm
const NUMBERS = /^\.\S.* \w*?cuda_streams_signature_(\d+)E?\[\d+\] = \{([\d, ]*)\};$/gm
/** Variables of the probes and of what they are made with, and the declarations of kernels that their addresses need. */
const OF_PROBES =
  /^(?:\.visible )?\.(?:global|const) [^;]*cuda_streams[^;]*;\n|^(?:\/\/ \.globl.*\n)?(?:\.\w+ )*\.entry \S+\s*\([^)]*\)\s*;\n/gm

/** Reads the answers of the probes, by the number of the probe. */
export function readProbes(ptx: string): ReadonlyMap<number, Probed> {
  const numbers = new Map([...ptx.matchAll(NUMBERS)].map(([, probe, list]) => [Number(probe), list ?? '']))
  const probes = [...ptx.matchAll(ADDRESS)].map(([, probe, name = '']): [number, Probed] => {
    const reader = new ProbeReader((numbers.get(Number(probe)) ?? '').split(', ').map(Number))
    return [Number(probe), { name, parameters: reader.parameters() }]
  })
  return new Map(probes)
}

class ProbeReader {
  #at = 0

  constructor(private readonly numbers: readonly number[]) {}

  parameters(): readonly ProbedType[] {
    return Array.from({ length: this.#next() }, (): ProbedType => {
      const pointer = POINTERS[this.#next()] ?? 'none'
      return { pointer, value: this.#value() }
    })
  }

  #next(): number {
    return this.numbers[this.#at++] ?? 0
  }

  #word(): number {
    return this.#next() + 2 ** 8 * this.#next() + 2 ** 16 * this.#next() + 2 ** 24 * this.#next()
  }

  #value(): ProbedValue {
    const first = this.#next()
    if (first === VECTOR) {
      const lanes = this.#next()
      return { kind: 'named', name: `${SCALAR_TYPES[this.#next() - 1]}x${lanes}` as VectorType }
    }
    if (first === ARRAY) return { kind: 'array', length: this.#word(), element: this.#value() }
    if (first === POINTER) return { kind: 'pointer' }
    if (first !== STRUCT) {
      const name = SCALAR_TYPES[first - 1]
      return name === undefined ? { kind: 'unknown' } : { kind: 'named', name }
    }
    const [number, byteLength, alignment] = [this.#word(), this.#word(), this.#word()]
    const members = Array.from({ length: this.#word() }, () =>
      this.#next() === 0 ? undefined : { offset: this.#word(), type: this.#value() },
    )
    return { kind: 'struct', number, byteLength, alignment, members }
  }
}

export const withoutProbes = (ptx: string): string => ptx.replace(OF_PROBES, '')
