/**
 * Stand-ins for headers that a file written for nvcc includes and NVRTC does not have: those of the C and C++ libraries, as far as code
 * for the GPU uses them, and CUDA's own for the host. What is declared nowhere stays an error where it is used.
 */

const INTEGERS = `#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef signed long long int64_t; typedef unsigned long long uint64_t;
typedef int64_t intptr_t; typedef uint64_t uintptr_t; typedef int64_t intmax_t; typedef uint64_t uintmax_t;
typedef int8_t int_fast8_t; typedef uint8_t uint_fast8_t; typedef int32_t int_fast32_t; typedef uint32_t uint_fast32_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295U
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT64_MAX 9223372036854775807LL
#define UINT64_MAX 18446744073709551615ULL
#define SIZE_MAX 18446744073709551615UL
namespace std { using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t; using ::int32_t; using ::uint32_t;
using ::int64_t; using ::uint64_t; using ::intptr_t; using ::uintptr_t; using ::size_t; using ::ptrdiff_t; }
`
const LIMITS_OF_INTEGERS = `#pragma once
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
`
const LIMITS_OF_FLOATS = `#pragma once
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_EPSILON 1.19209290e-7f
#define FLT_MIN 1.17549435e-38f
#define FLT_MAX 3.40282347e+38f
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MIN 2.2250738585072014e-308
#define DBL_MAX 1.7976931348623157e+308
`
const FUNCTIONS =
  'abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax fmin fmod frexp hypot isfinite isinf isnan ldexp lgamma log log10 log1p log2 modf pow remainder rint round sin sinh sqrt tan tanh tgamma trunc'
const MATHEMATICS = `#pragma once
#define HUGE_VALF __int_as_float(0x7f800000)
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#define INFINITY HUGE_VALF
#define NAN __int_as_float(0x7fffffff)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
namespace std { ${FUNCTIONS.split(' ')
  .map((name) => `using ::${name};`)
  .join(' ')} }
`
const LIMITS = `#pragma once
#include <climits>
#include <cfloat>
namespace std {
template <class CsT> struct numeric_limits { static constexpr bool is_specialized = false; };
#define CsLimits(CsT, LEAST, MOST, LOWEST, DIGITS, INTEGER, SIGNED) \\
  template <> struct numeric_limits<CsT> { \\
    static constexpr bool is_specialized = true, is_integer = INTEGER, is_signed = SIGNED; \\
    static constexpr int digits = DIGITS; \\
    __host__ __device__ static constexpr CsT min() { return LEAST; } \\
    __host__ __device__ static constexpr CsT max() { return MOST; } \\
    __host__ __device__ static constexpr CsT lowest() { return LOWEST; }
#define CsInteger(CsT, LEAST, MOST, DIGITS, SIGNED) \\
  CsLimits(CsT, LEAST, MOST, LEAST, DIGITS, true, SIGNED) };
CsInteger(bool, false, true, 1, false)
CsInteger(char, CHAR_MIN, CHAR_MAX, 7, true)
CsInteger(signed char, SCHAR_MIN, SCHAR_MAX, 7, true)
CsInteger(unsigned char, 0, UCHAR_MAX, 8, false)
CsInteger(short, SHRT_MIN, SHRT_MAX, 15, true)
CsInteger(unsigned short, 0, USHRT_MAX, 16, false)
CsInteger(int, INT_MIN, INT_MAX, 31, true)
CsInteger(unsigned int, 0, UINT_MAX, 32, false)
CsInteger(long, LONG_MIN, LONG_MAX, 63, true)
CsInteger(unsigned long, 0, ULONG_MAX, 64, false)
CsInteger(long long, LLONG_MIN, LLONG_MAX, 63, true)
CsInteger(unsigned long long, 0, ULLONG_MAX, 64, false)
CsLimits(float, FLT_MIN, FLT_MAX, -FLT_MAX, 24, false, true)
  __host__ __device__ static constexpr float epsilon() { return FLT_EPSILON; }
  __host__ __device__ static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
  __host__ __device__ static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fffffffu); } };
CsLimits(double, DBL_MIN, DBL_MAX, -DBL_MAX, 53, false, true)
  __host__ __device__ static constexpr double epsilon() { return DBL_EPSILON; }
  __host__ __device__ static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000ull); }
  __host__ __device__ static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7fffffffffffffffull); } };
#undef CsLimits
#undef CsInteger
}
`
const ALGORITHMS = `#pragma once
namespace std {
template <class CsT> __host__ __device__ constexpr const CsT &min(const CsT &a, const CsT &b) { return b < a ? b : a; }
template <class CsT> __host__ __device__ constexpr const CsT &max(const CsT &a, const CsT &b) { return a < b ? b : a; }
template <class CsT> __host__ __device__ constexpr const CsT &clamp(const CsT &value, const CsT &least, const CsT &most) { return value < least ? least : most < value ? most : value; }
template <class CsT> __host__ __device__ constexpr void swap(CsT &a, CsT &b) { CsT kept = a; a = b; b = kept; }
}
`
const TYPE_TRAITS = `#pragma once
namespace std {
template <class CsT, CsT CsV> struct integral_constant { static constexpr CsT value = CsV; typedef CsT value_type; typedef integral_constant type; __host__ __device__ constexpr operator CsT() const { return CsV; } };
template <bool CsB> using bool_constant = integral_constant<bool, CsB>;
typedef bool_constant<true> true_type; typedef bool_constant<false> false_type;
template <class CsA, class CsB> struct is_same : false_type {}; template <class CsA> struct is_same<CsA, CsA> : true_type {};
template <bool CsB, class CsT = void> struct enable_if {}; template <class CsT> struct enable_if<true, CsT> { typedef CsT type; };
template <bool CsB, class CsT = void> using enable_if_t = typename enable_if<CsB, CsT>::type;
template <bool CsB, class CsT, class CsF> struct conditional { typedef CsT type; }; template <class CsT, class CsF> struct conditional<false, CsT, CsF> { typedef CsF type; };
template <bool CsB, class CsT, class CsF> using conditional_t = typename conditional<CsB, CsT, CsF>::type;
template <class CsT> struct remove_const { typedef CsT type; }; template <class CsT> struct remove_const<const CsT> { typedef CsT type; };
template <class CsT> struct remove_volatile { typedef CsT type; }; template <class CsT> struct remove_volatile<volatile CsT> { typedef CsT type; };
template <class CsT> struct remove_cv { typedef typename remove_const<typename remove_volatile<CsT>::type>::type type; };
template <class CsT> struct remove_reference { typedef CsT type; }; template <class CsT> struct remove_reference<CsT &> { typedef CsT type; }; template <class CsT> struct remove_reference<CsT &&> { typedef CsT type; };
template <class CsT> struct remove_pointer { typedef CsT type; }; template <class CsT> struct remove_pointer<CsT *> { typedef CsT type; };
template <class CsT> using remove_const_t = typename remove_const<CsT>::type; template <class CsT> using remove_cv_t = typename remove_cv<CsT>::type;
template <class CsT> using remove_reference_t = typename remove_reference<CsT>::type; template <class CsT> using remove_pointer_t = typename remove_pointer<CsT>::type;
template <class CsT, class... CsU> struct is_any : bool_constant<(is_same<typename remove_cv<CsT>::type, CsU>::value || ...)> {};
template <class CsT> struct is_floating_point : is_any<CsT, float, double> {};
template <class CsT> struct is_integral : is_any<CsT, bool, char, signed char, unsigned char, short, unsigned short, int, unsigned int, long, unsigned long, long long, unsigned long long> {};
template <class CsT> struct is_arithmetic : bool_constant<is_integral<CsT>::value || is_floating_point<CsT>::value> {};
template <class CsT> struct is_signed : bool_constant<(CsT(-1) < CsT(0))> {}; template <class CsT> struct is_unsigned : bool_constant<(CsT(0) < CsT(-1))> {};
template <class CsT> struct is_pointer : false_type {}; template <class CsT> struct is_pointer<CsT *> : true_type {};
template <class CsA, class CsB> inline constexpr bool is_same_v = is_same<CsA, CsB>::value; template <class CsT> inline constexpr bool is_floating_point_v = is_floating_point<CsT>::value;
template <class CsT> inline constexpr bool is_integral_v = is_integral<CsT>::value; template <class CsT> inline constexpr bool is_arithmetic_v = is_arithmetic<CsT>::value;
template <class CsT> inline constexpr bool is_pointer_v = is_pointer<CsT>::value;
}
`
const UTILITIES = `#pragma once
#include <type_traits>
#include <algorithm>
namespace std {
template <class CsT> __host__ __device__ constexpr CsT &&forward(remove_reference_t<CsT> &value) noexcept { return static_cast<CsT &&>(value); }
template <class CsT> __host__ __device__ constexpr remove_reference_t<CsT> &&move(CsT &&value) noexcept { return static_cast<remove_reference_t<CsT> &&>(value); }
template <class CsT> __host__ __device__ CsT &&declval() noexcept;
}
`
const EMPTY = '#pragma once\n'

/** What of these code for the GPU uses, NVRTC declares without them: printf, assert, memcpy, the runtime's types, dim3, size_t. */
const HOST_HEADERS = `
stdio.h cstdio stdlib.h cstdlib string.h cstring assert.h cassert stddef.h cstddef stdbool.h time.h ctime ctype.h cctype errno.h signal.h
unistd.h pthread.h omp.h mpi.h sys/time.h sys/stat.h sys/types.h
array atomic bit bitset chrono complex concepts condition_variable deque exception filesystem format forward_list fstream functional future
initializer_list iomanip ios iosfwd iostream istream iterator list locale map memory mutex new numbers numeric optional ostream queue random
ratio regex set span sstream stack stdexcept string string_view system_error thread tuple typeindex typeinfo unordered_map unordered_set
variant vector
cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h device_functions.h vector_types.h vector_functions.h driver_types.h cuda.h
cuda_profiler_api.h cublas_v2.h cublasLt.h cufft.h curand.h cusparse.h cusolverDn.h cudnn.h nccl.h nvToolsExt.h nvtx3/nvToolsExt.h
helper_cuda.h helper_functions.h helper_timer.h helper_string.h helper_image.h
pybind11/pybind11.h torch/extension.h torch/torch.h torch/types.h torch/all.h torch/library.h ATen/ATen.h ATen/cuda/CUDAContext.h
c10/cuda/CUDAException.h c10/cuda/CUDAGuard.h
`

const TEXTS: Readonly<Record<string, string>> = {
  'stdint.h': INTEGERS,
  cstdint: INTEGERS,
  'inttypes.h': INTEGERS,
  cinttypes: INTEGERS,
  'limits.h': LIMITS_OF_INTEGERS,
  climits: LIMITS_OF_INTEGERS,
  'float.h': LIMITS_OF_FLOATS,
  cfloat: LIMITS_OF_FLOATS,
  'math.h': MATHEMATICS,
  cmath: MATHEMATICS,
  limits: LIMITS,
  algorithm: ALGORITHMS,
  type_traits: TYPE_TRAITS,
  utility: UTILITIES,
  ...Object.fromEntries(
    HOST_HEADERS.trim()
      .split(/\s+/)
      .map((name) => [name, EMPTY]),
  ),
}

/** Thrust is for the host, and its headers are long. */
const textOf = (name: string): string | undefined => TEXTS[name] ?? (/^thrust\//.test(name) ? EMPTY : undefined)

/** Is a header replaced even if CUDA's folders have it? */
export const isAlwaysReplaced = (name: string): boolean => textOf(name) !== undefined

/** Includes of the stand-ins themselves. */
const INNER = /^#include <([^>]+)>/gm

/** The stand-ins for these names, and those which they include; no entry for a name that has none. */
export function standardHeaders(names: Iterable<string>): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  const add = (name: string): void => {
    const text = textOf(name)
    if (text === undefined || found.has(name)) return
    found.set(name, text)
    for (const [, inner = ''] of text.matchAll(INNER)) add(inner)
  }
  for (const name of names) add(name)
  return found
}

/** What stands for a header that is not here. The compiler says what is missing, if the GPU's code needs anything of it. */
export const MISSING_HEADER = EMPTY
