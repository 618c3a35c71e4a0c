__device__ __noinline__ void store(int *to, int value) { *to = value; }

// Changes every second element in place: from `first` on.
__global__ void add(int *values, int first, int n, int summand) {
  int i = first + 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) store(&values[i], values[i] + summand);
}

__global__ void multiply(int *values, int first, int n, int factor) {
  int i = first + 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) store(&values[i], values[i] * factor);
}
