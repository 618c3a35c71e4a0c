#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                       \
  do {                                                                    \
    cudaError_t status = (call);                                          \
    if (status != cudaSuccess) {                                          \
      fprintf(stderr, "%s at line %d\n", cudaGetErrorString(status), __LINE__); \
      exit(EXIT_FAILURE);                                                 \
    }                                                                     \
  } while (0)

// y = a * x + y
__global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

static float *host_x, *host_y;

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
  float *x, *y;
  host_x = (float *)malloc(n * sizeof(float));
  host_y = (float *)malloc(n * sizeof(float));
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMalloc(&y, n * sizeof(float)));
  saxpy<<<(n + 255) / 256, 256>>>(n, 2.0f, x, y);
  CHECK(cudaDeviceSynchronize());
  printf("the braces of this text are not code: { {\n");
  return 0;
}
