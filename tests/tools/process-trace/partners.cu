// A library of plain CUDA C++ with one stream and one array: `nvcc -shared`.
#include <cuda_runtime.h>
static const int N = 1 << 20;
static cudaStream_t stream;
static float *x, *y, *host;
__global__ void scale(const float *in, float *out, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 2 * in[i]; }
__global__ void set(float *out, float value, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = value; }
extern "C" {
int plain_start(void **handle, float **array) {
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaMalloc(&x, N * 4); cudaMalloc(&y, N * 4); cudaMallocHost(&host, N * 4);
  *handle = stream; *array = x;
  return cudaDeviceSynchronize();
}
int plain_kernel(int) { set<<<N / 256, 256, 0, stream>>>(x, 1, N); return cudaGetLastError(); }
int plain_read(int) { scale<<<N / 256, 256, 0, stream>>>(x, y, N); return cudaGetLastError(); }
int plain_fill(int) { return cudaMemsetAsync(x, 0, N * 4, stream); }
int plain_upload(int) { return cudaMemcpyAsync(x, host, N * 4, cudaMemcpyHostToDevice, stream); }
}
