// Each thread squares one element.
__global__ void square(int *values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] *= values[i];
}
