#include <cstdio>
#include <string>
#include <vector>
#include <opencv2/opencv.hpp>
#include "cuda_runtime.h"

#define RADIUS 1
#define WIDTH (2 * RADIUS + 1)

__constant__ float weights[WIDTH * WIDTH];

class Timer {
 public:
  Timer() : start_(nullptr) { cudaEventCreate(&start_); }
  ~Timer() { cudaEventDestroy(start_); }
  float elapsed() const;

 private:
  cudaEvent_t start_;
  std::vector<float> laps_;
};

float Timer::elapsed() const { return laps_.empty() ? 0.0f : laps_.back(); }

__host__ __device__ inline int clampTo(int value, int least, int most) {
  return value < least ? least : value > most ? most : value;
}

/**
 * Grey values of an image.
 */
__global__ void rgba_to_grey(const uchar4 *const rgba, unsigned char *const grey, int rows, int columns) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= columns || y >= rows) return;
  const uchar4 pixel = rgba[y * columns + x];
  grey[y * columns + x] = .299f * pixel.x + .587f * pixel.y + .114f * pixel.z;
}

__global__ void filter(const unsigned char *in, unsigned char *out, int rows, int columns) {
  const int2 at = make_int2(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y);
  if (at.x >= columns || at.y >= rows) return;
  float sum = 0.0f;
  for (int dy = -RADIUS; dy <= RADIUS; ++dy)
    for (int dx = -RADIUS; dx <= RADIUS; ++dx)
      sum += weights[(dy + RADIUS) * WIDTH + dx + RADIUS] *
             in[clampTo(at.y + dy, 0, rows - 1) * columns + clampTo(at.x + dx, 0, columns - 1)];
  out[at.y * columns + at.x] = (unsigned char)sum;
}

void preProcess(uchar4 **rgba, const std::string &filename) {
  cv::Mat image = cv::imread(filename.c_str());
  if (image.empty()) exit(1);
}
