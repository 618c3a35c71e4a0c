/**
 * What a kernel's parameters are is for the compiler to say, since only it knows what a name of a type or an argument of a template stands
 * for. A probe is two variables behind a kernel: its address, which gives its name in the PTX, and its parameters as numbers. Both are read
 * from the PTX, and removed.
 */
import type { ScalarType } from '../base/element-types.js'

/** A type in the library's terms, as far as the compiler says it. */
export interface ProbedType {
  /** What it is, or what it points to, element by element: a float4 is made of f32. Undefined for a struct, a void and the like. */
  readonly scalar: ScalarType | undefined
  /** How many of them it has: 4 for a float4. */
  readonly count: number
  readonly pointer: 'none' | 'pointer' | 'pointer to const'
  readonly isEnum: boolean
}

export interface Probed {
  /** The kernel's name in the PTX. */
  readonly name: string
  readonly parameters: readonly ProbedType[]
}

/** C++ types by the library's; half and bfloat16 have no type of their own in JavaScript and are passed as their bits. */
const SCALARS: readonly (readonly [scalar: ScalarType, names: string])[] = [
  ['bool', 'bool'],
  ['i8', 'char, signed char'],
  ['u8', 'unsigned char'],
  ['i16', 'short'],
  ['u16', 'unsigned short, ::__half, ::__nv_bfloat16'],
  ['i32', 'int'],
  ['u32', 'unsigned int'],
  ['i64', 'long long'],
  ['u64', 'unsigned long long'],
  ['f32', 'float'],
  ['f64', 'double'],
]
const VECTORS: readonly (readonly [scalar: ScalarType, name: string])[] = [
  ['i8', 'char'],
  ['u8', 'uchar'],
  ['i16', 'short'],
  ['u16', 'ushort'],
  ['i32', 'int'],
  ['u32', 'uint'],
  ['i64', 'longlong'],
  ['u64', 'ulonglong'],
  ['f32', 'float'],
  ['f64', 'double'],
]
const numberOf = (scalar: ScalarType): number => 1 + SCALARS.findIndex(([known]) => known === scalar)
/** Set beside a count for an enum. */
const ENUM = 128

function specializations(): string {
  const known = (type: string, scalar: number | string, count: number): string =>
    `template <> struct scalar<${type}> { enum : unsigned char { code = ${scalar}, count = ${count} }; };`
  const plain = SCALARS.flatMap(([scalar, names]) => names.split(', ').map((name) => known(name, numberOf(scalar), 1)))
  const vectors = VECTORS.flatMap(([scalar, name]) =>
    // Of double4 and the like some toolkits say at each use that they are deprecated.
    [1, 2, 3, ...(/64/.test(scalar) ? [] : [4])].map((count) => known(`::${name}${count}`, numberOf(scalar), count)),
  )
  const pairs = ['::__half2', '::__nv_bfloat162'].map((name) => known(name, numberOf('u16'), 2))
  // Of 8 bytes on Linux, 4 on Windows.
  const longs = [
    known('long', `sizeof(long) == 8 ? ${numberOf('i64')} : ${numberOf('i32')}`, 1),
    known('unsigned long', `sizeof(long) == 8 ? ${numberOf('u64')} : ${numberOf('u32')}`, 1),
  ]
  return [...plain, ...vectors, ...pairs, ...longs].join('\n')
}

/** Stands before the source. */
export const PROBE_DECLARATIONS = `struct __half; struct __half2; struct __nv_bfloat16; struct __nv_bfloat162;
namespace cuda_streams {
template <class CsT> struct scalar { enum : unsigned char { code = 0, count = __is_enum(CsT) ? ${ENUM} : 0 }; };
${specializations()}
template <class CsT> struct pointee : scalar<CsT> { enum : unsigned char { pointer = 1 }; };
template <class CsT> struct pointee<const CsT> : scalar<CsT> { enum : unsigned char { pointer = 2 }; };
template <class CsT> struct pointee<volatile CsT> : scalar<CsT> { enum : unsigned char { pointer = 1 }; };
template <class CsT> struct pointee<const volatile CsT> : scalar<CsT> { enum : unsigned char { pointer = 2 }; };
template <class CsT> struct pointee<CsT*> { enum : unsigned char { code = ${numberOf('u64')}, count = 1, pointer = 1 }; };
template <class CsT> struct pointee<CsT* const> { enum : unsigned char { code = ${numberOf('u64')}, count = 1, pointer = 2 }; };
template <class CsT> struct parameter : scalar<CsT> { enum : unsigned char { pointer = 0 }; };
template <class CsT> struct parameter<CsT*> : pointee<CsT> {};
template <unsigned CsN> struct numbers { unsigned char of[CsN]; };
template <class CsT> struct signature;
template <class... CsA> struct signature<void(CsA...)> {
  typedef numbers<3 * sizeof...(CsA) + 1> type;
  static constexpr type value = {{ parameter<CsA>::code..., parameter<CsA>::count..., parameter<CsA>::pointer..., 255 }};
};
}
`

/** The probe of a kernel, in the scope where it is declared. */
export const probeOf = (number: number, expression: string): string =>
  `extern "C" { __attribute__((used)) __device__ ::cuda_streams::signature<decltype(${expression})>::type cuda_streams_signature_${number} = ::cuda_streams::signature<decltype(${expression})>::value; __attribute__((used)) __device__ decltype(${expression})* cuda_streams_kernel_${number} = &${expression}; }`

const ADDRESS = /^\.\S.* \w*?cuda_streams_kernel_(\d+)E? = (\S+);$/gm
const NUMBERS = /^\.\S.* \w*?cuda_streams_signature_(\d+)E?\[\d+\] = \{([\d, ]*)\};$/gm
/** Variables of the probes and of what they are made with, and the declarations of kernels that their addresses need. */
const OF_PROBES =
  /^(?:\.visible )?\.(?:global|const) [^;]*cuda_streams[^;]*;\n|^(?:\/\/ \.globl.*\n)?(?:\.\w+ )*\.entry \S+\s*\([^)]*\)\s*;\n/gm

/** By the number of the probe. */
export function readProbes(ptx: string): ReadonlyMap<number, Probed> {
  const numbers = new Map([...ptx.matchAll(NUMBERS)].map(([, probe, list]) => [Number(probe), list ?? '']))
  const probes = [...ptx.matchAll(ADDRESS)].map(([, probe, name = '']): [number, Probed] => {
    const all = (numbers.get(Number(probe)) ?? '').split(', ').map(Number)
    const count = all.lastIndexOf(255) / 3
    const parameters = Array.from({ length: count }, (_, index): ProbedType => {
      const [code = 0, elements = 0, pointer = 0] = [all[index], all[index + count], all[index + 2 * count]]
      return {
        scalar: SCALARS[code - 1]?.[0],
        count: elements % ENUM,
        pointer: pointer === 0 ? 'none' : pointer === 1 ? 'pointer' : 'pointer to const',
        isEnum: elements >= ENUM,
      }
    })
    return [Number(probe), { name, parameters }]
  })
  return new Map(probes)
}

export const withoutProbes = (ptx: string): string => ptx.replace(OF_PROBES, '')
