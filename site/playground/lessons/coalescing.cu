// Mirrors a matrix of 32 rows and columns: each thread moves one element.
// The 32 threads of a warp have the same row, and each a column of its own.
__global__ void transpose(const float *from, float *to) {
  int column = threadIdx.x, row = threadIdx.y;
  float element = from[32 * row + column];
  to[32 * column + row] = element;
}
