#define BLOCK 256

// Adds the dot product of a and b to the result. A block adds up its products in shared memory.
__global__ void dot(int n, const float *a, const float *b, float *result) {
  __shared__ float sums[BLOCK];
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  sums[threadIdx.x] = i < n ? a[i] * b[i] : 0;
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) atomicAdd(result, sums[0]);
}
