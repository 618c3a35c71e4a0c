/**
 * Stand-ins for headers that a file written for nvcc includes and NVRTC does not have: those of the C and C++ libraries, as far as code
 * for the GPU uses them, and CUDA's own for the host. What is declared nowhere stays an error where it is used.
 */

const INTEGERS = `typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
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
/** What sys/types.h, stdlib.h and time.h declare: nvcc gives them to each file, together with CUDA's own headers. */
const SYSTEM_TYPES = `#include <stdint.h>
typedef unsigned char u_char; typedef unsigned short u_short; typedef unsigned int u_int; typedef unsigned long u_long;
typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
typedef unsigned char u_int8_t; typedef unsigned short u_int16_t; typedef unsigned int u_int32_t; typedef unsigned long u_int64_t;
typedef long ssize_t; typedef long off_t; typedef long off64_t; typedef int pid_t; typedef unsigned int mode_t;
typedef unsigned int uid_t; typedef unsigned int gid_t; typedef unsigned int useconds_t; typedef long suseconds_t;
// As CUDA's own library has it.
typedef long long int time_t;
struct timeval { long tv_sec; suseconds_t tv_usec; };
struct tm { int tm_sec, tm_min, tm_hour, tm_mday, tm_mon, tm_year, tm_wday, tm_yday, tm_isdst; long tm_gmtoff; const char *tm_zone; };
`
const STREAMS_OF_C = `typedef struct _IO_FILE FILE;
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
`
const THREADS_OF_C = `typedef unsigned long pthread_t; union pthread_mutex_t { char bytes[40]; long word; }; union pthread_cond_t { char bytes[48]; long long word; };
union pthread_attr_t { char bytes[56]; long word; }; union pthread_barrier_t { char bytes[32]; long word; };
`
const STRINGS = `namespace std { using ::memcpy; using ::memset; }
`
/** Classes of std that headers of CUDA's libraries name for the host, and nothing for the GPU has a value of. */
const OUTPUT = `namespace std {
template <class CsC> struct char_traits;
template <class CsC, class CsT = char_traits<CsC>> class basic_ostream; template <class CsC, class CsT = char_traits<CsC>> class basic_istream;
typedef basic_ostream<char> ostream; typedef basic_istream<char> istream;
}
`
const LIMITS_OF_INTEGERS = `#define CHAR_BIT 8
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
const LIMITS_OF_FLOATS = `#define FLT_RADIX 2
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
const MATHEMATICS = `#define HUGE_VALF __int_as_float(0x7f800000)
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
const LIMITS = `#include <climits>
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
const ALGORITHMS = `namespace std {
template <class CsT> __host__ __device__ constexpr const CsT &min(const CsT &a, const CsT &b) { return b < a ? b : a; }
template <class CsT> __host__ __device__ constexpr const CsT &max(const CsT &a, const CsT &b) { return a < b ? b : a; }
template <class CsT> __host__ __device__ constexpr const CsT &clamp(const CsT &value, const CsT &least, const CsT &most) { return value < least ? least : most < value ? most : value; }
template <class CsT> __host__ __device__ constexpr void swap(CsT &a, CsT &b) { CsT kept = a; a = b; b = kept; }
}
`
const TYPE_TRAITS = `namespace std {
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
${[
  'class',
  'enum',
  'union',
  'empty',
  'trivial',
  'trivially_copyable',
  'standard_layout',
  'polymorphic',
  'abstract',
  'final',
]
  .map(
    (what) =>
      `template <class CsT> struct is_${what} : bool_constant<__is_${what}(CsT)> {}; template <class CsT> inline constexpr bool is_${what}_v = __is_${what}(CsT);`,
  )
  .join('\n')}
template <class CsA, class CsB> struct is_base_of : bool_constant<__is_base_of(CsA, CsB)> {}; template <class CsA, class CsB> inline constexpr bool is_base_of_v = __is_base_of(CsA, CsB);
template <class CsA, class CsB> struct is_convertible : bool_constant<__is_convertible_to(CsA, CsB)> {}; template <class CsA, class CsB> inline constexpr bool is_convertible_v = __is_convertible_to(CsA, CsB);
template <class CsT, class... CsA> struct is_constructible : bool_constant<__is_constructible(CsT, CsA...)> {}; template <class CsT, class... CsA> inline constexpr bool is_constructible_v = __is_constructible(CsT, CsA...);
template <class CsT> struct is_default_constructible : is_constructible<CsT> {}; template <class CsT> struct is_copy_constructible : is_constructible<CsT, const CsT &> {};
template <class CsT> struct is_void : is_same<typename remove_cv<CsT>::type, void> {}; template <class CsT> inline constexpr bool is_void_v = is_void<CsT>::value;
template <class CsT> struct is_const : false_type {}; template <class CsT> struct is_const<const CsT> : true_type {}; template <class CsT> inline constexpr bool is_const_v = is_const<CsT>::value;
template <class CsT> struct is_volatile : false_type {}; template <class CsT> struct is_volatile<volatile CsT> : true_type {};
template <class CsT> struct is_lvalue_reference : false_type {}; template <class CsT> struct is_lvalue_reference<CsT &> : true_type {};
template <class CsT> struct is_rvalue_reference : false_type {}; template <class CsT> struct is_rvalue_reference<CsT &&> : true_type {};
template <class CsT> struct is_reference : bool_constant<is_lvalue_reference<CsT>::value || is_rvalue_reference<CsT>::value> {}; template <class CsT> inline constexpr bool is_reference_v = is_reference<CsT>::value;
template <class CsT> struct is_array : false_type {}; template <class CsT> struct is_array<CsT[]> : true_type {}; template <class CsT, size_t CsN> struct is_array<CsT[CsN]> : true_type {}; template <class CsT> inline constexpr bool is_array_v = is_array<CsT>::value;
template <class CsT> struct is_scalar : bool_constant<is_arithmetic<CsT>::value || is_enum<CsT>::value || is_pointer<CsT>::value> {};
template <class CsT> inline constexpr bool is_signed_v = is_signed<CsT>::value; template <class CsT> inline constexpr bool is_unsigned_v = is_unsigned<CsT>::value;
template <class CsT> struct remove_extent { typedef CsT type; }; template <class CsT> struct remove_extent<CsT[]> { typedef CsT type; }; template <class CsT, size_t CsN> struct remove_extent<CsT[CsN]> { typedef CsT type; };
template <class CsT> struct remove_cvref { typedef typename remove_cv<typename remove_reference<CsT>::type>::type type; }; template <class CsT> using remove_cvref_t = typename remove_cvref<CsT>::type;
template <class CsT> using remove_extent_t = typename remove_extent<CsT>::type;
template <class CsT> struct add_pointer { typedef typename remove_reference<CsT>::type *type; }; template <class CsT> using add_pointer_t = typename add_pointer<CsT>::type;
template <class CsT> struct add_const { typedef const CsT type; }; template <class CsT> using add_const_t = const CsT;
template <class CsT> struct add_lvalue_reference { typedef CsT &type; }; template <class CsT> using add_lvalue_reference_t = CsT &;
template <class CsT> struct decay { typedef typename remove_reference<CsT>::type bare; typedef typename conditional<is_array<bare>::value, typename remove_extent<bare>::type *, typename remove_cv<bare>::type>::type type; };
template <class CsT> using decay_t = typename decay<CsT>::type;
template <class CsT> struct type_identity { typedef CsT type; }; template <class CsT> using type_identity_t = CsT;
template <class CsT> struct underlying_type { typedef __underlying_type(CsT) type; }; template <class CsT> using underlying_type_t = typename underlying_type<CsT>::type;
template <class...> using void_t = void;
template <class... CsT> struct conjunction : bool_constant<(CsT::value && ...)> {}; template <class... CsT> inline constexpr bool conjunction_v = conjunction<CsT...>::value;
template <class... CsT> struct disjunction : bool_constant<(CsT::value || ...)> {}; template <class... CsT> inline constexpr bool disjunction_v = disjunction<CsT...>::value;
template <class CsT> struct negation : bool_constant<!CsT::value> {}; template <class CsT> inline constexpr bool negation_v = !CsT::value;
template <class... CsT> struct common_type; template <class CsT> struct common_type<CsT> { typedef typename decay<CsT>::type type; };
template <class CsA, class CsB> struct common_type<CsA, CsB> { typedef typename decay<decltype(true ? *(CsA *)0 : *(CsB *)0)>::type type; };
template <class CsA, class CsB, class... CsT> struct common_type<CsA, CsB, CsT...> : common_type<typename common_type<CsA, CsB>::type, CsT...> {}; template <class... CsT> using common_type_t = typename common_type<CsT...>::type;
template <class CsT> struct make_unsigned { typedef CsT type; }; template <class CsT> struct make_signed { typedef CsT type; };
${['char', 'short', 'int', 'long', 'long long']
  .map(
    (each) =>
      `template <> struct make_unsigned<${each === 'char' ? 'signed char' : each}> { typedef unsigned ${each} type; }; template <> struct make_signed<unsigned ${each}> { typedef ${each === 'char' ? 'signed char' : each} type; };`,
  )
  .join('\n')}
template <> struct make_unsigned<char> { typedef unsigned char type; }; template <> struct make_signed<char> { typedef signed char type; };
template <class CsT> using make_unsigned_t = typename make_unsigned<CsT>::type; template <class CsT> using make_signed_t = typename make_signed<CsT>::type;
}
`
/** `move` and `forward` are NVRTC's own. */
const UTILITIES = `#include <type_traits>
#include <algorithm>
namespace std {
template <class CsT> __host__ __device__ CsT &&declval() noexcept;
template <class CsA, class CsB> struct pair { typedef CsA first_type; typedef CsB second_type; CsA first; CsB second; pair() = default; __host__ __device__ constexpr pair(const CsA &a, const CsB &b) : first(a), second(b) {} };
template <class CsA, class CsB> __host__ __device__ constexpr pair<CsA, CsB> make_pair(CsA a, CsB b) { return pair<CsA, CsB>(a, b); }
}
`
/** Types of CUDA's libraries: handles, which are pointers, and enums, of which the host alone has values. */
function libraryTypes(includes: string, handles: string, enums: string): string {
  const names = (text: string): readonly string[] => text.split(/\s+/).filter((name) => name !== '')
  return `${names(includes)
    .map((name) => `#include <${name}>\n`)
    .join('')}${names(handles)
    .map((name) => `typedef struct ${name}_opaque *${name};\n`)
    .join('')}${names(enums)
    .map((name) => `enum ${name} : int {};\n`)
    .join('')}`
}
const CUBLAS =
  libraryTypes(
    'cuda_fp16.h cuda_bf16.h cuComplex.h',
    'cublasHandle_t cublasXtHandle_t cublasLtHandle_t cublasLtMatmulDesc_t cublasLtMatrixLayout_t cublasLtMatmulPreference_t cublasLtMatrixTransformDesc_t',
    'cublasStatus_t cublasOperation_t cublasFillMode_t cublasSideMode_t cublasDiagType_t cublasPointerMode_t cublasAtomicsMode_t cublasMath_t cublasComputeType_t cublasGemmAlgo_t cublasLtEpilogue_t cublasLtOrder_t',
  ) +
  `
typedef cublasStatus_t cublasStatus; typedef struct { unsigned long long data[8]; } cublasLtMatmulAlgo_t;
typedef struct { cublasLtMatmulAlgo_t algo; size_t workspaceSize; cublasStatus_t state; float wavesCount; int reserved[4]; } cublasLtMatmulHeuristicResult_t;
`
const CUFFT =
  libraryTypes('cuComplex.h', '', 'cufftResult_t cufftType_t cufftCompatibility_t') +
  `
typedef int cufftHandle; typedef cufftResult_t cufftResult; typedef cufftType_t cufftType; typedef float cufftReal; typedef double cufftDoubleReal;
typedef cuComplex cufftComplex; typedef cuDoubleComplex cufftDoubleComplex;
#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1
`
const CUSPARSE = libraryTypes(
  'cuda_fp16.h cuda_bf16.h cuComplex.h',
  'cusparseHandle_t cusparseMatDescr_t cusparseSpMatDescr_t cusparseDnMatDescr_t cusparseSpVecDescr_t cusparseDnVecDescr_t cusparseSpGEMMDescr_t cusparseSpSVDescr_t cusparseSpSMDescr_t csrsv2Info_t csrsm2Info_t csrilu02Info_t csric02Info_t bsrsv2Info_t',
  'cusparseStatus_t cusparseOperation_t cusparseIndexBase_t cusparseIndexType_t cusparseOrder_t cusparseAction_t cusparseDirection_t cusparsePointerMode_t cusparseMatrixType_t cusparseFillMode_t cusparseDiagType_t cusparseSolvePolicy_t cusparseSpMVAlg_t cusparseSpMMAlg_t',
)
const CUSOLVER = libraryTypes(
  'cublas_v2.h',
  'cusolverDnHandle_t cusolverSpHandle_t cusolverRfHandle_t cusolverDnParams_t gesvdjInfo_t syevjInfo_t csrqrInfo_t csrcholInfo_t',
  'cusolverStatus_t cusolverEigMode_t cusolverEigType_t cusolverEigRange_t cusolverAlgMode_t',
)
const CURAND =
  libraryTypes(
    '',
    'curandGenerator_t curandDiscreteDistribution_t',
    'curandStatus curandRngType curandOrdering curandMethod curandDirectionVectorSet',
  ) +
  `
typedef curandStatus curandStatus_t; typedef curandRngType curandRngType_t; typedef curandOrdering curandOrdering_t;
`
const CUDNN = libraryTypes(
  '',
  'cudnnHandle_t cudnnTensorDescriptor_t cudnnFilterDescriptor_t cudnnConvolutionDescriptor_t cudnnPoolingDescriptor_t cudnnActivationDescriptor_t cudnnLRNDescriptor_t cudnnDropoutDescriptor_t cudnnOpTensorDescriptor_t cudnnReduceTensorDescriptor_t cudnnRNNDescriptor_t cudnnRNNDataDescriptor_t cudnnSpatialTransformerDescriptor_t cudnnAttnDescriptor_t cudnnCTCLossDescriptor_t cudnnBackendDescriptor_t',
  'cudnnStatus_t cudnnDataType_t cudnnTensorFormat_t cudnnMathType_t cudnnActivationMode_t cudnnPoolingMode_t cudnnBatchNormMode_t cudnnSoftmaxAlgorithm_t cudnnSoftmaxMode_t cudnnConvolutionMode_t cudnnConvolutionFwdAlgo_t cudnnConvolutionBwdDataAlgo_t cudnnConvolutionBwdFilterAlgo_t cudnnNanPropagation_t cudnnReduceTensorOp_t cudnnOpTensorOp_t cudnnRNNMode_t cudnnDirectionMode_t cudnnRNNInputMode_t cudnnLRNMode_t cudnnDivNormMode_t',
)
const NCCL =
  libraryTypes(
    'cuda_fp16.h cuda_bf16.h',
    'ncclComm_t ncclWindow_t',
    'ncclResult_t ncclDataType_t ncclRedOp_t ncclScalarResidence_t',
  ) +
  `
typedef struct { char internal[128]; } ncclUniqueId;
#define NCCL_UNIQUE_ID_BYTES 128
`
const MPI = `typedef struct MPI_Comm_opaque *MPI_Comm; typedef struct MPI_Request_opaque *MPI_Request; typedef struct MPI_Datatype_opaque *MPI_Datatype; typedef struct MPI_Op_opaque *MPI_Op;
typedef struct { int MPI_SOURCE, MPI_TAG, MPI_ERROR; } MPI_Status;
`
/** What the driver's API declares. */
const DRIVER =
  libraryTypes(
    '',
    'CUcontext CUmodule CUfunction CUevent CUarray CUmipmappedArray CUlibrary CUkernel CUmemoryPool CUgraph CUgraphExec CUgraphNode',
    'CUresult CUmemorytype CUaddress_mode CUfilter_mode CUarray_format CUdevice_attribute CUjit_option CUlimit',
  ) +
  `
typedef int CUdevice; typedef unsigned long long CUdeviceptr; typedef unsigned long long CUtexObject; typedef unsigned long long CUsurfObject;
typedef cudaStream_t CUstream;
typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;
`
const EMPTY = ''

/** What of these code for the GPU uses, NVRTC declares without them: printf, assert, memcpy, the runtime's types, dim3, size_t. */
const HOST_HEADERS = `
assert.h cassert stddef.h cstddef stdbool.h ctype.h cctype errno.h cerrno signal.h csignal stdarg.h cstdarg setjmp.h csetjmp locale.h clocale
malloc.h memory.h strings.h getopt.h libgen.h fcntl.h dirent.h dlfcn.h sched.h values.h fenv.h cfenv omp.h cinttypes sys/stat.h sys/mman.h
sys/resource.h sys/wait.h sys/sysinfo.h sys/ioctl.h sys/file.h sys/param.h wchar.h cwchar cxxabi.h execinfo.h
any barrier charconv codecvt compare coroutine execution expected future generator latch mdspan memory_resource print scoped_allocator semaphore
shared_mutex source_location stop_token strstream syncstream valarray version
array atomic bit bitset chrono complex concepts condition_variable deque exception filesystem format forward_list fstream functional
initializer_list iomanip ios iostream iterator list locale map memory mutex new numbers numeric optional queue random
ratio regex set span sstream stack stdexcept string string_view system_error thread tuple typeindex typeinfo unordered_map unordered_set
variant vector
cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h device_functions.h vector_types.h vector_functions.h driver_types.h
channel_descriptor.h texture_types.h surface_types.h texture_fetch_functions.h texture_indirect_functions.h surface_functions.h
surface_indirect_functions.h math_functions.h device_double_functions.h sm_20_intrinsics.h sm_30_intrinsics.h sm_35_intrinsics.h sm_60_atomic_functions.h
builtin_types.h device_types.h library_types.h host_defines.h host_config.h driver_functions.h common_functions.h device_atomic_functions.h sm_20_atomic_functions.h
crt/host_defines.h crt/device_functions.h crt/math_functions.h
cuda_profiler_api.h cudaProfiler.h nvToolsExt.h nvToolsExtCuda.h nvtx3/nvToolsExt.h nvtx3/nvtx3.hpp nvrtc.h nvml.h cuda_gl_interop.h cuda_occupancy.h
cuda_egl_interop.h cuda_vdpau_interop.h cudaGL.h nppdefs.h npp.h nppi.h npps.h
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
  'sys/types.h': SYSTEM_TYPES,
  'sys/time.h': SYSTEM_TYPES,
  'time.h': SYSTEM_TYPES,
  ctime: SYSTEM_TYPES,
  'unistd.h': SYSTEM_TYPES,
  'stdio.h': STREAMS_OF_C,
  cstdio: STREAMS_OF_C,
  'stdlib.h': `${STREAMS_OF_C}#include <sys/types.h>\n`,
  cstdlib: `${STREAMS_OF_C}#include <sys/types.h>\n`,
  'pthread.h': THREADS_OF_C,
  'string.h': STRINGS,
  cstring: STRINGS,
  iosfwd: OUTPUT,
  ostream: OUTPUT,
  istream: OUTPUT,
  'cublas.h': CUBLAS,
  'cublas_v2.h': CUBLAS,
  'cublas_api.h': CUBLAS,
  'cublasXt.h': CUBLAS,
  'cublasLt.h': CUBLAS,
  'cufft.h': CUFFT,
  'cufftXt.h': CUFFT,
  'cufftw.h': CUFFT,
  'cusparse.h': CUSPARSE,
  'cusparse_v2.h': CUSPARSE,
  'cusparseLt.h': CUSPARSE,
  'cusolverDn.h': CUSOLVER,
  'cusolverSp.h': CUSOLVER,
  'cusolverRf.h': CUSOLVER,
  'cusolver_common.h': CUSOLVER,
  'curand.h': CURAND,
  'cudnn.h': CUDNN,
  'cudnn_v8.h': CUDNN,
  'cudnn_v9.h': CUDNN,
  'nccl.h': NCCL,
  'mpi.h': MPI,
  'cuda.h': DRIVER,
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

/** Several names may stand for one text, which a `#pragma once` takes for several files. */
const guards = new Map<string, string>()
function guarded(text: string): string {
  const guard = guards.get(text) ?? `cuda_streams_header_${guards.size}`
  guards.set(text, guard)
  return `#ifndef ${guard}\n#define ${guard}\n${text}#endif\n`
}

/** Thrust is for the host, and its headers are long. */
function textOf(name: string): string | undefined {
  const text = TEXTS[name] ?? (/^thrust\//.test(name) ? 'namespace thrust {}\n' : undefined)
  return text === undefined ? undefined : guarded(text)
}

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
