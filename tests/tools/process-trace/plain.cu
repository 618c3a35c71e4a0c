// Plain CUDA C++ with a missing wait, and the same with it: `plain racy|right`.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
__global__ void scale(const float *in, float *out, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 2 * in[i]; }
__global__ void set(float *out, float value, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = value; }
static const int N = 1 << 20;
static bool right;
static cudaStream_t one, two;
static cudaEvent_t event;
static void order() { if (right) { cudaEventRecord(event, one); cudaStreamWaitEvent(two, event, 0); } }
static void kernels(float *x, float *y, float *z) { scale<<<N / 256, 256, 0, one>>>(x, y, N); order(); scale<<<N / 256, 256, 0, two>>>(y, z, N); }
static void download(float *x, float *host) { set<<<N / 256, 256, 0, one>>>(x, 1, N); order(); cudaMemcpyAsync(host, x, N * 4, cudaMemcpyDeviceToHost, two); }
static void upload(float *x, float *y, float *host) { cudaMemcpyAsync(x, host, N * 4, cudaMemcpyHostToDevice, one); order(); scale<<<N / 256, 256, 0, two>>>(x, y, N); }
static void freed() { float *x; cudaMallocAsync(&x, N * 4, one); set<<<N / 256, 256, 0, one>>>(x, 1, N); order(); cudaFreeAsync(x, two); }
int main(int argc, char **argv) {
  right = argc > 1 && strcmp(argv[1], "right") == 0;
  cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking); cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  float *x, *y, *z, *host; cudaMalloc(&x, N * 4); cudaMalloc(&y, N * 4); cudaMalloc(&z, N * 4); cudaMallocHost(&host, N * 4);
  kernels(x, y, z); cudaDeviceSynchronize(); download(x, host); cudaDeviceSynchronize(); upload(x, y, host); cudaDeviceSynchronize(); freed();
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
