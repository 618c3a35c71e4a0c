// Matrices of 8-bit integers, in blocks with a scale each.
#include <cuda_fp16.h>
#include <cstdint>

#define QK8_0 32

typedef struct {
  half d;             // delta
  int8_t qs[QK8_0];   // quants
} block_q8_0;
static_assert(sizeof(block_q8_0) == sizeof(half) + QK8_0, "wrong q8_0 block size/padding");

static __device__ __forceinline__ int get_int(const int8_t *x, int i) {
  const uint16_t *x16 = (const uint16_t *)x;
  return x16[2 * i] | (x16[2 * i + 1] << 16);
}

/** Quantizes 32 floats by each thread. */
static __global__ void quantize_q8_0(const float *__restrict__ x, block_q8_0 *__restrict__ y, const int64_t blocks) {
  const int64_t ib = (int64_t)blockDim.x * blockIdx.x + threadIdx.x;
  if (ib >= blocks) return;
  float amax = 0.0f;
  for (int i = 0; i < QK8_0; ++i) amax = fmaxf(amax, fabsf(x[ib * QK8_0 + i]));
  const float d = amax / 127;
  y[ib].d = __float2half(d);
  for (int i = 0; i < QK8_0; ++i) y[ib].qs[i] = d == 0.0f ? 0 : roundf(x[ib * QK8_0 + i] / d);
}

static __global__ void mul_mat_vec_q8_0(const block_q8_0 *__restrict__ m, const block_q8_0 *__restrict__ v, float *__restrict__ dst, const int ncols) {
  const int row = blockIdx.x, blocks = ncols / QK8_0;
  float sum = 0.0f;
  for (int ib = threadIdx.x; ib < blocks; ib += warpSize) {
    const block_q8_0 &a = m[row * blocks + ib], &b = v[ib];
    int sumi = 0;
#pragma unroll
    for (int i = 0; i < QK8_0 / 4; ++i) sumi = __dp4a(get_int(a.qs, i), get_int(b.qs, i), sumi);
    sum += sumi * __half2float(a.d) * __half2float(b.d);
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask, 32);
  if (threadIdx.x == 0) dst[row] = sum;
}

// Four weights at a time; bias is that of the four input channels.
__global__ void matvec_i8(const char4 *__restrict__ weights, const char4 *__restrict__ x, char4 bias, int *__restrict__ out, int quads) {
  int sum = 0;
  for (int i = 0; i < quads; ++i) {
    const char4 v = x[i];
    sum = __dp4a(weights[threadIdx.x * quads + i], make_char4(v.x + bias.x, v.y + bias.y, v.z + bias.z, v.w + bias.w), sum);
  }
  out[threadIdx.x] = sum;
}

__global__ void unpack_rgba(const uchar4 *pixels, float4 *out, uchar4 key, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const uchar4 p = pixels[i];
  const bool isKey = p.x == key.x && p.y == key.y && p.z == key.z;
  out[i] = make_float4(p.x / 255.0f, p.y / 255.0f, p.z / 255.0f, isKey ? 0.0f : p.w / 255.0f);
}
