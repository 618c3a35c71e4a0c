#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

template <typename T>
struct Convert;
template <>
struct Convert<half> {
  static __device__ float up(half x) { return __half2float(x); }
  static __device__ half down(float x) { return __float2half(x); }
};
template <>
struct Convert<__nv_bfloat16> {
  static __device__ float up(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __device__ __nv_bfloat16 down(float x) { return __float2bfloat16(x); }
};

// Root mean square norm of rows, one block for each.
template <typename T, int BLOCK>
__global__ void rms_norm(const T *__restrict__ x, const T *__restrict__ weight, T *__restrict__ out, int columns, float epsilon) {
  __shared__ float sums[BLOCK];
  const T *row = x + blockIdx.x * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += BLOCK) sum += Convert<T>::up(row[i]) * Convert<T>::up(row[i]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) sums[threadIdx.x] += sums[threadIdx.x + stride];
    __syncthreads();
  }
  const float scale = rsqrtf(sums[0] / columns + epsilon);
  for (int i = threadIdx.x; i < columns; i += BLOCK)
    out[blockIdx.x * columns + i] = Convert<T>::down(Convert<T>::up(row[i]) * scale * Convert<T>::up(weight[i]));
}

template <typename T>
__global__ void axpy(T a, const T *x, T *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = Convert<T>::down(Convert<T>::up(a) * Convert<T>::up(x[i]) + Convert<T>::up(y[i]));
}

// Two at a time.
__global__ void axpy_half2(half2 a, const half2 *x, half2 *y, int pairs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) y[i] = __hfma2(a, x[i], y[i]);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, double epsilon) {
  auto out = torch::empty_like(x);
  if (x.scalar_type() == torch::kHalf) {
    rms_norm<half, 64><<<x.size(0), 64>>>(x.data_ptr<half>(), weight.data_ptr<half>(), out.data_ptr<half>(), x.size(1), epsilon);
    axpy<half><<<1, 64>>>(__float2half(1.0f), nullptr, nullptr, 0);
  } else {
    rms_norm<__nv_bfloat16, 64><<<x.size(0), 64>>>(nullptr, nullptr, nullptr, x.size(1), epsilon);
    axpy<__nv_bfloat16><<<1, 64>>>(__float2bfloat16(1.0f), nullptr, nullptr, 0);
  }
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
