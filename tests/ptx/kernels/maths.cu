// Functions of the mathematical library, in both precisions.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void maths_float(const float *in, float *out, int n) {
  int i = threadIdx.x;
  float x = in[i], *o = out + i;
  int k = 0;
#define PUT(v) o[n * k++] = (v)
  PUT(sinf(x)); PUT(cosf(x)); PUT(tanf(x)); PUT(expf(x)); PUT(exp2f(x)); PUT(logf(fabsf(x))); PUT(log2f(fabsf(x))); PUT(log10f(fabsf(x)));
  PUT(sqrtf(fabsf(x))); PUT(rsqrtf(fabsf(x))); PUT(cbrtf(x)); PUT(atanf(x)); PUT(atan2f(x, 2.0f)); PUT(sinhf(x)); PUT(coshf(x)); PUT(tanhf(x));
  PUT(erff(x)); PUT(erfcf(x)); PUT(tgammaf(x)); PUT(lgammaf(x)); PUT(powf(fabsf(x), 1.7f)); PUT(fmodf(x, 0.7f)); PUT(remainderf(x, 0.7f)); PUT(hypotf(x, 3.0f));
  PUT(floorf(x)); PUT(ceilf(x)); PUT(truncf(x)); PUT(rintf(x)); PUT(roundf(x)); PUT(log1pf(fabsf(x))); PUT(expm1f(x)); PUT(asinhf(x));
}
extern "C" __global__ void maths_double(const double *in, double *out, int n) {
  int i = threadIdx.x;
  double x = in[i], *o = out + i;
  int k = 0;
  PUT(sin(x)); PUT(cos(x)); PUT(tan(x)); PUT(exp(x)); PUT(exp2(x)); PUT(log(fabs(x))); PUT(log2(fabs(x))); PUT(log10(fabs(x)));
  PUT(sqrt(fabs(x))); PUT(rsqrt(fabs(x))); PUT(cbrt(x)); PUT(atan(x)); PUT(atan2(x, 2.0)); PUT(sinh(x)); PUT(cosh(x)); PUT(tanh(x));
  PUT(erf(x)); PUT(erfc(x)); PUT(tgamma(x)); PUT(lgamma(x)); PUT(pow(fabs(x), 1.7)); PUT(fmod(x, 0.7)); PUT(remainder(x, 0.7)); PUT(hypot(x, 3.0));
  PUT(floor(x)); PUT(ceil(x)); PUT(trunc(x)); PUT(rint(x)); PUT(round(x)); PUT(log1p(fabs(x))); PUT(expm1(x)); PUT(asinh(x));
}
extern "C" __global__ void rounding(const float *a, const float *b, float *out, int n) {
  int i = threadIdx.x;
  float x = a[i], y = b[i], *o = out + i;
  int k = 0;
  PUT(__fadd_rd(x, y)); PUT(__fadd_ru(x, y)); PUT(__fadd_rz(x, y)); PUT(__fmul_rd(x, y)); PUT(__fmul_ru(x, y)); PUT(__fmul_rz(x, y));
  PUT(__fdiv_rd(x, y)); PUT(__fdiv_ru(x, y)); PUT(__fdiv_rz(x, y)); PUT(__fsqrt_rd(fabsf(x))); PUT(__fsqrt_ru(fabsf(x))); PUT(__fmaf_rd(x, y, x)); PUT(__fmaf_ru(x, y, x)); PUT(__frcp_rz(x)); PUT(fmaf(x, y, -x)); PUT(__saturatef(x));
}
extern "C" __global__ void conversions(const float *in, int *out, int n) {
  int i = threadIdx.x;
  float x = in[i];
  int *o = out + i, k = 0;
  PUT(__float2int_rn(x)); PUT(__float2int_rz(x)); PUT(__float2int_rd(x)); PUT(__float2int_ru(x)); PUT((int)__float2uint_rz(x)); PUT((int)__float2ll_rn(x));
  PUT(__half_as_ushort(__float2half_rn(x))); PUT(__half_as_ushort(__float2half_rz(x))); PUT(__half_as_ushort(__float2half_ru(x))); PUT(__bfloat16_as_ushort(__float2bfloat16(x)));
  PUT((signed char)x); PUT((unsigned char)fabsf(x)); PUT(__float_as_int(__int2float_rz((int)x * 1000003))); PUT(__double2int_rn(x * 1.5)); PUT(__double2hiint(x)); PUT(__double2loint(x / 3.0));
}
extern "C" __global__ void halves(const __half *a, const __half *b, __half *out, int n) {
  int i = threadIdx.x;
  __half x = a[i], y = b[i], *o = out + i;
  int k = 0;
  PUT(x + y); PUT(x - y); PUT(x * y); PUT(x / y); PUT(__hfma(x, y, x)); PUT(-x); PUT(__habs(x)); PUT(__hmin(x, y)); PUT(__hmax(x, y)); PUT(__hlt(x, y) ? x : y);
  PUT(hsqrt(__habs(x))); PUT(hfloor(x)); PUT(__hadd_sat(x, y)); PUT(__int2half_rn(i * 37)); PUT(__hfma_relu(x, y, x)); PUT(hrint(x));
}
extern "C" __global__ void bits(const unsigned *in, unsigned *out, int n) {
  int i = threadIdx.x;
  unsigned x = in[i], y = in[(i + 1) % n], *o = out + i;
  int k = 0;
  PUT(__popc(x)); PUT(__clz(x)); PUT(__ffs(x)); PUT(__brev(x)); PUT(__byte_perm(x, y, 0x6240)); PUT(__funnelshift_l(x, y, i)); PUT(__funnelshift_rc(x, y, 40)); PUT(__umulhi(x, y));
  PUT(__mulhi((int)x, (int)y)); PUT(__sad((int)x, (int)y, 5)); PUT(__usad(x, y, 5)); PUT(__umul24(x, y)); PUT(__mul24(x, y)); PUT(__hadd((int)x, (int)y)); PUT(__uhadd(x, y)); PUT(__vadd4(x, y));
  PUT(__vabsdiffu4(x, y)); PUT(__vmaxs2(x, y)); PUT(__vavgu4(x, y)); PUT(__vcmpgtu4(x, y)); PUT(__vsads4(x, y)); PUT(__popcll((unsigned long long)x << 32 | y)); PUT(__clzll((long long)y << 3)); PUT((x & y) ^ (~x | y >> 3));
}
