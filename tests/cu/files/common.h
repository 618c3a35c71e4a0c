#ifndef COMMON_H
#define COMMON_H
#include <cuda_runtime.h>
#include <float.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "warp.h"

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
typedef float floatX;

inline void cudaCheck_(cudaError_t error, const char *file, int line) {
  if (error != cudaSuccess) {
    printf("[CUDA ERROR] at file %s:%d\n", file, line);
    exit(EXIT_FAILURE);
  }
}
#define cudaCheck(err) (cudaCheck_(err, __FILE__, __LINE__))

float *make_random_float(size_t N) {
  float *arr = (float *)malloc(N * sizeof(float));
  for (size_t i = 0; i < N; i++) arr[i] = ((float)rand() / RAND_MAX) * 2.0 - 1.0;
  return arr;
}
#endif
