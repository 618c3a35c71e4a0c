#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include "helper_cuda.h"

#define RADIUS 1

/// How an image is sharpened.
struct FilterParams {
  uint2 size;
  float4 gain;                              // of each channel
  float kernel[2 * RADIUS + 1][2 * RADIUS + 1];
  float threshold;
  bool clampAlpha;
};

__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ __forceinline__ float4 operator*(float s, float4 a) { return make_float4(s * a.x, s * a.y, s * a.z, s * a.w); }
__device__ float sharpened(float pixel, float blurred, float gain, float threshold) {
  const float difference = pixel - blurred;
  return fabsf(difference) < threshold ? pixel : pixel + gain * difference;
}

// Unsharp mask.
extern "C" __global__ void sharpen(const float4 *__restrict__ in, float4 *__restrict__ out, const FilterParams params, float4 background) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const int width = params.size.x, height = params.size.y;
  if (x >= width || y >= height) return;
  float4 blurred = make_float4(0, 0, 0, 0);
  for (int dy = -RADIUS; dy <= RADIUS; ++dy)
    for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
      const bool inside = x + dx >= 0 && x + dx < width && y + dy >= 0 && y + dy < height;
      const float4 pixel = inside ? in[(y + dy) * width + x + dx] : background;
      blurred = blurred + params.kernel[dy + RADIUS][dx + RADIUS] * pixel;
    }
  const float4 pixel = in[y * width + x];
  float4 result = make_float4(sharpened(pixel.x, blurred.x, params.gain.x, params.threshold),
                              sharpened(pixel.y, blurred.y, params.gain.y, params.threshold),
                              sharpened(pixel.z, blurred.z, params.gain.z, params.threshold),
                              sharpened(pixel.w, blurred.w, params.gain.w, params.threshold));
  if (params.clampAlpha) result.w = fminf(1.0f, fmaxf(0.0f, result.w));
  out[y * width + x] = result;
}

int main(int argc, char **argv) {
  FilterParams params{};
  params.size = make_uint2(atoi(argv[1]), atoi(argv[2]));
  float4 *in, *out;
  checkCudaErrors(cudaMalloc(&in, sizeof(float4) * params.size.x * params.size.y));
  checkCudaErrors(cudaMalloc(&out, sizeof(float4) * params.size.x * params.size.y));
  dim3 block(16, 16), grid((params.size.x + 15) / 16, (params.size.y + 15) / 16);
  sharpen<<<grid, block>>>(in, out, params, make_float4(0, 0, 0, 1));
  checkCudaErrors(cudaDeviceSynchronize());
}
