// Compiled when the tests run (cuda-source.test.ts), not checked in as PTX. Options: --device-int128.

extern "C" __global__ void divide_128(const unsigned long long* a, unsigned long long* out) {
  const unsigned long long* x = a + 3 * threadIdx.x;
  unsigned __int128 n = ((unsigned __int128)x[0] << 64) | x[1], q = n / x[2], r = n % x[2];
  out[3 * threadIdx.x] = q >> 64; out[3 * threadIdx.x + 1] = q; out[3 * threadIdx.x + 2] = r;
}

extern "C" __global__ void flag_between_barriers(int* flags, int* out) {
  __shared__ int seen;
  while (blockIdx.x + 1 < gridDim.x) {
    if (threadIdx.x == 0) seen = ((volatile int*)flags)[blockIdx.x + 1];
    __syncthreads();
    if (seen) break;
    __syncthreads();
  }
  __syncthreads();
  if (threadIdx.x == 0) { out[blockIdx.x] = blockIdx.x; __threadfence(); ((volatile int*)flags)[blockIdx.x] = 1; }
}

extern "C" __global__ void flag_by_shuffles(int* out) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  int warp = threadIdx.x / 32, v;
  for (int i = 0; i < 5; i++) {
    do { v = threadIdx.x % 32 == 0 ? flag : 0; v = __shfl_sync(~0u, v, 0); } while (v % 2 != warp);
    if (threadIdx.x % 32 == 0) flag = v + 1;
    __syncwarp();
  }
  __syncthreads();
  out[threadIdx.x] = flag;
}

__device__ __noinline__ int look(volatile int* flag) { return *flag; }
__device__ __noinline__ void await(volatile int* flag, int value) { while (look(flag) != value) {} }
extern "C" __global__ void wait_in_call(int* flags, int* out) {
  int i = threadIdx.x;
  if (i < 63) await(flags + i + 1, i + 2);
  out[i] = i;
  __threadfence();
  ((volatile int*)flags)[i] = i + 1;
}

__device__ __noinline__ unsigned active() { return __activemask(); }
extern "C" __global__ void active_in_call(const int* in, int* out) {
  if (in[threadIdx.x] % 3) out[threadIdx.x] = active();
  else out[threadIdx.x] = ~active();
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void copies_arrive(const int* in, int* out) {
  __shared__ unsigned long long barrier;
  __shared__ int stage[32];
  unsigned at = __cvta_generic_to_shared(&barrier), to = __cvta_generic_to_shared(stage + threadIdx.x), over = 0;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(at));
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(in + threadIdx.x));
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(at));
  asm volatile("{.reg .b64 s; mbarrier.arrive.shared.b64 s, [%0];}" :: "r"(at));
  while (!over)
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
      : "=r"(over) : "r"(at) : "memory");
  asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 1; selp.u32 %0, 1, 0, p;}"
    : "=r"(over) : "r"(at) : "memory");
  out[threadIdx.x] = stage[31 - threadIdx.x] + 1000 * over;
}
#endif

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void reserved_shared(int* out) {
  __shared__ int own[32];
  unsigned at;
  asm volatile("mov.u32 %0, %%reserved_smem_offset_1;" : "=r"(at));
  own[threadIdx.x] = threadIdx.x;
  asm volatile("st.shared.u32 [%0], %1;" :: "r"(at + 4 * threadIdx.x), "r"(7 * threadIdx.x) : "memory");
  __syncthreads();
  int v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at + 4 * (31 - threadIdx.x)));
  out[threadIdx.x] = v + own[threadIdx.x];
}
#endif

extern "C" __global__ void at_least_zero(const int* in, int* out) {
  int a = in[threadIdx.x] - 500, b = in[31 - threadIdx.x] - 500;
  out[2 * threadIdx.x] = __viaddmax_s32_relu(a, b, -3);
  out[2 * threadIdx.x + 1] = __vimin_s16x2_relu((a << 16) | (b & 65535), (b << 16) | 5);
}

extern "C" __global__ void endless_barriers(volatile int* out) { while (out[0] == 0) __syncthreads(); }

extern "C" __global__ void endless_shuffles(volatile int* out) { while (out[0] == 0) out[1] = __shfl_xor_sync(~0u, out[1], 1); }

extern "C" __global__ void endless_sums(volatile int* out) { while (out[0] == 0) out[1] = out[1] * 5 + 1; }

extern "C" __global__ void null_pointer() { printf("%p %p", (void*)0, (void*)18); }
