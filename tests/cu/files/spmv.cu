#include <cstdint>
#include <thrust/device_vector.h>

namespace sparse {

/// One row of a matrix in CSR for each thread.
template <typename Index, typename Value>
__global__ void spmv_csr(const Index rows, const Index *__restrict__ row_offsets, const Index *__restrict__ columns,
                         const Value *__restrict__ values, const Value *__restrict__ x, Value *__restrict__ y) {
  for (Index row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
    Value sum = 0;
    for (Index at = row_offsets[row]; at < row_offsets[row + 1]; ++at) sum += values[at] * x[columns[at]];
    y[row] = sum;
  }
}

template __global__ void spmv_csr<int32_t, float>(int32_t, const int32_t *, const int32_t *, const float *, const float *, float *);
template __global__ void spmv_csr<int64_t, double>(int64_t, const int64_t *, const int64_t *, const double *, const double *, double *);

struct Matrix {
  thrust::device_vector<int32_t> rows() const;
};

}  // namespace sparse
