// One block adds up 256 numbers. In each round half of the threads
// that are left add another thread's sum to their own.
__global__ void add_up(const int *values, int *total) {
  __shared__ int sums[256];
  int i = threadIdx.x;
  sums[i] = values[i];
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads(); // the sums of the round before are there
    if (i < half) sums[i] += sums[i + half];
  }
  if (i == 0) *total = sums[0];
}
