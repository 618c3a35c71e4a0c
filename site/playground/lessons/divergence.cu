// One block adds up 256 numbers. In each round every second thread that
// is left adds its neighbour's sum to its own.
__global__ void add_up(const int *values, int *total) {
  __shared__ int sums[256];
  int i = threadIdx.x;
  sums[i] = values[i];
  for (int step = 1; step < 256; step *= 2) {
    __syncthreads();
    if (i % (2 * step) == 0) sums[i] += sums[i + step];
  }
  if (i == 0) *total = sums[0];
}
