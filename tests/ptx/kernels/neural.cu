// Layers of neural networks.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float blockSum(float v) {
  __shared__ float part[32];
  for (int step = 16; step; step >>= 1) v += __shfl_xor_sync(~0u, v, step);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
  if (threadIdx.x < 32) {
    for (int step = 16; step; step >>= 1) v += __shfl_xor_sync(~0u, v, step);
    if (threadIdx.x == 0) part[0] = v;
  }
  __syncthreads();
  return part[0];
}

__device__ float blockMax(float v) {
  __shared__ float part[32];
  for (int step = 16; step; step >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, step));
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  v = part[0];
  for (int i = 1; i < blockDim.x / 32; i++) v = fmaxf(v, part[i]);
  return v;
}

extern "C" __global__ void softmax(const float *in, float *out, int columns) {
  const float *row = in + blockIdx.x * columns;
  float best = -__int_as_float(0x7f800000), sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) best = fmaxf(best, row[i]);
  best = blockMax(best);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - best);
  sum = blockSum(sum);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = expf(row[i] - best) / sum;
}

extern "C" __global__ void layer_norm(const float *in, const float *gain, const float *bias, float *out, int columns) {
  const float *row = in + blockIdx.x * columns;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
  float mean = blockSum(sum) / columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
  float scale = rsqrtf(blockSum(squares) / columns + 1e-5f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = (row[i] - mean) * scale * gain[i] + bias[i];
}

extern "C" __global__ void rms_norm_half(const __half *in, const __half *gain, __half *out, int columns) {
  float squares = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) { float v = __half2float(in[blockIdx.x * columns + i]); squares += v * v; }
  float scale = rsqrtf(blockSum(squares) / columns + 1e-6f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[blockIdx.x * columns + i] = __hmul(__float2half(__half2float(in[blockIdx.x * columns + i]) * scale), gain[i]);
}

extern "C" __global__ void rms_norm_bf16(const __nv_bfloat16 *in, __nv_bfloat16 *out, int columns) {
  float squares = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) { float v = __bfloat162float(in[blockIdx.x * columns + i]); squares += v * v; }
  float scale = rsqrtf(blockSum(squares) / columns + 1e-6f);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[blockIdx.x * columns + i] = __float2bfloat16(__bfloat162float(in[blockIdx.x * columns + i]) * scale);
}

extern "C" __global__ void gelu(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float x = in[i]; out[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))); }
}

extern "C" __global__ void silu_mul_half2(const __half2 *gate, const __half2 *up, __half2 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 g = __half22float2(gate[i]), u = __half22float2(up[i]);
  out[i] = __floats2half2_rn(g.x / (1 + __expf(-g.x)) * u.x, g.y / (1 + __expf(-g.y)) * u.y);
}

extern "C" __global__ void rope(float *x, const int *positions, int heads, int size) {
  int i = threadIdx.x, head = blockIdx.y, token = blockIdx.x;
  float angle = positions[token] * powf(10000.0f, -2.0f * i / size), s, c;
  sincosf(angle, &s, &c);
  float *p = x + (token * heads + head) * size;
  float a = p[i], b = p[i + size / 2];
  p[i] = a * c - b * s;
  p[i + size / 2] = a * s + b * c;
}

// Attention of one query at a time, with the softmax as it goes.
extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *o, int tokens) {
  __shared__ float scores[128];
  int query = blockIdx.x, t = threadIdx.x;
  float best = -__int_as_float(0x7f800000), sum = 0, acc = 0;
  for (int begin = 0; begin < tokens; begin += 64) {
    float dot = 0;
    if (begin + t <= query) for (int d = 0; d < 64; d++) dot += q[query * 64 + d] * k[(begin + t) * 64 + d];
    scores[t] = begin + t <= query ? dot * 0.125f : -__int_as_float(0x7f800000);
    __syncthreads();
    float peak = best;
    for (int j = 0; j < 64; j++) peak = fmaxf(peak, scores[j]);
    float fix = __expf(best - peak);
    acc *= fix;
    sum *= fix;
    for (int j = 0; j < 64; j++) {
      float p = __expf(scores[j] - peak);
      sum += p;
      acc += p * v[(begin + j) * 64 + t];
    }
    best = peak;
    __syncthreads();
  }
  o[query * 64 + t] = acc / sum;
}

extern "C" __global__ void embedding(const int *tokens, const float4 *table, float4 *out, int width) {
  int token = tokens[blockIdx.x];
  for (int i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = table[token * width + i];
}

extern "C" __global__ void cross_entropy(const float *logits, const int *labels, float *loss, int classes) {
  const float *row = logits + threadIdx.x * classes;
  float best = row[0], sum = 0;
  for (int i = 1; i < classes; i++) best = fmaxf(best, row[i]);
  for (int i = 0; i < classes; i++) sum += expf(row[i] - best);
  loss[threadIdx.x] = logf(sum) + best - row[labels[threadIdx.x]];
}

extern "C" __global__ void adam(float *w, const float *g, float *m, float *v, int n, float rate, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  m[i] = 0.9f * m[i] + 0.1f * g[i];
  v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
  float a = m[i] / (1 - powf(0.9f, step)), b = v[i] / (1 - powf(0.999f, step));
  w[i] -= rate * a / (sqrtf(b) + 1e-8f);
}

extern "C" __global__ void top_k(const float *in, int *out, int n, int k) {
  __shared__ float best[64];
  __shared__ int where[64];
  __shared__ unsigned taken[32];
  if (threadIdx.x < 32) taken[threadIdx.x] = 0;
  __syncthreads();
  for (int round = 0; round < k; round++) {
    float v = -__int_as_float(0x7f800000);
    int at = -1;
    for (int i = threadIdx.x; i < n; i += 64) if (!(taken[i >> 5] >> (i & 31) & 1) && in[i] > v) { v = in[i]; at = i; }
    best[threadIdx.x] = v;
    where[threadIdx.x] = at;
    __syncthreads();
    for (int step = 32; step; step >>= 1) {
      if (threadIdx.x < step && best[threadIdx.x + step] > best[threadIdx.x]) { best[threadIdx.x] = best[threadIdx.x + step]; where[threadIdx.x] = where[threadIdx.x + step]; }
      __syncthreads();
    }
    if (threadIdx.x == 0) { out[round] = where[0]; taken[where[0] >> 5] |= 1u << (where[0] & 31); }
    __syncthreads();
  }
}
