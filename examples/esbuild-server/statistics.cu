// Adds the values' sum and the sum of their squares to the result.
__global__ void moments(int n, const double *values, double *result) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&result[0], values[i]);
  atomicAdd(&result[1], values[i] * values[i]);
}
