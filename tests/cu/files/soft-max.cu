// Soft max of rows, with a mask and a slope for each head.
#include "common.cuh"
#include "ggml.h"
#include <cstdint>
#include <cmath>

template <typename T>
static __device__ __forceinline__ float t2f32(T val) {
  return (float)val;
}

struct soft_max_params {
  int64_t nheads;
  uint32_t n_head_log2;
  int64_t ncols;
  int64_t nrows_x;
  float scale;
  float max_bias;
  float m0;
  float m1;
};

static __device__ __forceinline__ float row_max(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, offset, 32));
  return x;
}
static __device__ __forceinline__ float row_sum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffff, x, offset, 32);
  return x;
}

// A block of one warp for each row. If `use_shared`, the values are kept in shared memory, else in dst.
template <bool use_shared, int ncols_template, int block_size_template, typename T>
static __global__ void soft_max_f32(const float *x, const T *mask, float *dst, const soft_max_params p) {
  const int ncols = ncols_template == 0 ? p.ncols : ncols_template;
  const int tid = threadIdx.x;
  const int64_t rowx = blockIdx.x;
  const int64_t head = rowx % p.nheads;
  x += rowx * ncols;
  dst += rowx * ncols;
  float slope = 1.0f;
  if (p.max_bias > 0.0f) {
    const bool low = head < p.n_head_log2;
    slope = powf(low ? p.m0 : p.m1, low ? head + 1 : 2 * (head - p.n_head_log2) + 1);
  }
  extern __shared__ float data_soft_max_f32[];
  float *vals = use_shared ? data_soft_max_f32 : dst;
  float max_val = -INFINITY;
  for (int col = tid; col < ncols; col += block_size_template) {
    const float val = x[col] * p.scale + (mask ? slope * t2f32(mask[col]) : 0.0f);
    vals[col] = val;
    max_val = fmaxf(max_val, val);
  }
  max_val = row_max(max_val);
  float sum = 0.0f;
  for (int col = tid; col < ncols; col += block_size_template) {
    const float val = expf(vals[col] - max_val);
    sum += val;
    vals[col] = val;
  }
  const float inv_sum = 1.0f / row_sum(sum);
  for (int col = tid; col < ncols; col += block_size_template) dst[col] = vals[col] * inv_sum;
}

template <typename T>
static void soft_max_f32_cuda(const float *x, const T *mask, float *dst, const soft_max_params &params, cudaStream_t stream) {
  const dim3 block_nums(params.nrows_x, 1, 1);
  switch (params.ncols) {
    case 64: soft_max_f32<true, 64, 32, T><<<block_nums, 32, 64 * sizeof(float), stream>>>(x, mask, dst, params); break;
    default: soft_max_f32<false, 0, 32, T><<<block_nums, 32, 0, stream>>>(x, mask, dst, params); break;
  }
}

void ggml_cuda_op_soft_max(ggml_backend_cuda_context &ctx, ggml_tensor *dst) {
  const ggml_tensor *src0 = dst->src[0];
  GGML_ASSERT(src0->type == GGML_TYPE_F32);
  float scale = 1.0f;
  memcpy(&scale, (float *)dst->op_params + 0, sizeof(float));
  soft_max_f32_cuda<float>((const float *)src0->data, nullptr, (float *)dst->data, {}, ctx.stream());
}
