// Mirrors a matrix of 32 rows and columns, through a tile in shared memory:
// a warp reads a row and writes a row, and takes a column out of the tile.
__global__ void transpose(const float *from, float *to) {
  __shared__ float tile[32][32];
  int column = threadIdx.x, row = threadIdx.y;
  tile[row][column] = from[32 * row + column];
  __syncthreads();
  to[32 * row + column] = tile[column][row];
}
