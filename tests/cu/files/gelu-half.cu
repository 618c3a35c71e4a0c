#include <cuda_fp16.h>
#include <curand_kernel.h>

#ifdef USE_LIBRARY
#include <library/that/is/nowhere.h>
#endif

namespace {

__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); }

__global__ void gelu_half(const half *in, half *out, half scale, int64_t n, bool negate) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float y = gelu(__half2float(in[i])) * __half2float(scale);
  out[i] = __float2half(negate ? -y : y);
}

// Four at a time.
__global__ void gelu_vector(float4 *values, const unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = values[i];
  values[i] = make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));
}

}  // namespace
