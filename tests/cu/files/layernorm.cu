// Layer norm, forward, a warp for each row.
#include <stdio.h>
#include <math.h>
#include <cooperative_groups.h>
#include "common.h"

void layernorm_forward_cpu(float *out, float *mean, float *rstd, const float *inp, const float *weight,
                           const float *bias, int B, int T, int C) {
  float eps = 1e-5f;
  for (int b = 0; b < B; b++) {
    for (int t = 0; t < T; t++) { out[b * T + t] = eps; }
  }
}

__global__ void __launch_bounds__(256)
layernorm_forward_kernel(floatX *__restrict__ out, float *__restrict__ mean, float *__restrict__ rstd,
                         const floatX *__restrict__ inp, const floatX *__restrict__ weight,
                         const floatX *__restrict__ bias, int N, int C) {
  int lane = threadIdx.x % WARP_SIZE;
  int row = blockIdx.x * warps_of(blockDim.x) + threadIdx.x / WARP_SIZE;
  if (row >= N) return;
  const floatX *x = inp + row * C;
  float sum = 0.0f;
  for (int i = lane; i < C; i += WARP_SIZE) sum += (float)x[i];
  float m = warpReduceSum(sum) / C;
  float squares = 0.0f;
  for (int i = lane; i < C; i += WARP_SIZE) {
    float diff = (float)x[i] - m;
    squares += diff * diff;
  }
  float s = rsqrtf(warpReduceSum(squares) / C + 1e-5f);
  if (lane == 0 && mean != nullptr) __stcs(mean + row, m);
  if (lane == 0 && rstd != nullptr) __stcs(rstd + row, s);
  for (int c = lane; c < C; c += WARP_SIZE) {
    float n = s * ((float)__ldcs(x + c) - m);
    __stcs(out + row * C + c, (floatX)(n * (float)weight[c] + (float)bias[c]));
  }
}

void layernorm_forward(floatX *out, float *mean, float *rstd, floatX *inp, const floatX *weight, const floatX *bias,
                       int B, int T, int C, cudaStream_t stream) {
  const int block_size = 256;
  layernorm_forward_kernel<<<CEIL_DIV(B * T, block_size / WARP_SIZE), block_size, 0, stream>>>(out, mean, rstd, inp,
                                                                                              weight, bias, B * T, C);
  cudaCheck(cudaGetLastError());
}
