// Threads and blocks that wait for each other; asynchronous copies.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void spin_lock(int *lock, int *sum, int rounds) {
  for (int i = 0; i < rounds; i++) {
    bool done = false;
    while (!done) {
      if (atomicCAS(lock, 0, 1) == 0) {
        *(volatile int *)sum = *(volatile int *)sum + 1;
        __threadfence();
        atomicExch(lock, 0);
        done = true;
      }
    }
  }
}

extern "C" __global__ void wait_for_block(volatile int *flag, int *out) {
  if (blockIdx.x == 0) {
    while (flag[0] != gridDim.x - 1) {}
    out[threadIdx.x] = 42;
  } else {
    if (threadIdx.x == 0) atomicAdd((int *)flag, 1);
  }
}

extern "C" __global__ void grid_sync(int *a, int *b, int n) {
  cg::grid_group grid = cg::this_grid();
  int i = grid.thread_rank();
  for (int round = 0; round < 3; round++) {
    if (i < n) b[i] = a[n - 1 - i] + 1;
    grid.sync();
    if (i < n) a[i] = b[(i + 1) % n] * 2;
    grid.sync();
  }
}

extern "C" __global__ void tiles(const int *in, int *out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int v = in[threadIdx.x];
  for (int step = 4; step; step >>= 1) v += tile.shfl_xor(v, step);
  auto warp = cg::tiled_partition<32>(block);
  out[threadIdx.x] = v * 10 + tile.meta_group_rank() + (warp.any(v > 400) ? 100000 : 0);
  if (threadIdx.x % 3 == 0) {
    auto few = cg::coalesced_threads();
    if (few.thread_rank() == 0) out[threadIdx.x] += 1000000;
  }
}

extern "C" __global__ void named_barriers(const int *in, int *out) {
  __shared__ int s[128];
  // The second half of the block makes what the first half takes.
  if (threadIdx.x >= 64) {
    s[threadIdx.x - 64] = in[threadIdx.x] * 2;
    asm volatile("bar.arrive 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    out[threadIdx.x] = s[63 - threadIdx.x];
  }
}

extern "C" __global__ void early_exit(const int *in, int *out, int n) {
  __shared__ int s[128];
  if (threadIdx.x >= n) return;
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[n - 1 - threadIdx.x];
}

extern "C" __global__ void diverged(const int *in, int *out) {
  int v = in[threadIdx.x];
  if (v & 1) {
    int loops = v & 7;
    for (int i = 0; i < loops; i++) v = v * 3 + __shfl_xor_sync(__activemask() & 0, v, 0) * 0 + 1;
  }
  __syncwarp();
  v += __shfl_down_sync(~0u, v, 1);
  out[threadIdx.x] = v;
}

extern "C" __global__ void never_ends(volatile int *flag) { while (*flag == 0) {} }

extern "C" __global__ void bad_barrier(int *out) {
  if (threadIdx.x < 16) asm volatile("bar.sync 1, 64;");
  out[threadIdx.x] = 1;
}

extern "C" __global__ void shared_race(int *out) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = s[63 - threadIdx.x];
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void async_copy(const float4 *in, float4 *out, int n) {
  __shared__ float4 s[2][64];
  unsigned at0 = __cvta_generic_to_shared(&s[0][threadIdx.x]), at1 = __cvta_generic_to_shared(&s[1][threadIdx.x]);
  int i = blockIdx.x * 128 + threadIdx.x, bytes = i + 64 < n ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n cp.async.commit_group;" ::"r"(at0), "l"(in + i));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;\n cp.async.commit_group;" ::"r"(at1), "l"(in + i + 64), "r"(bytes));
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[i] = s[0][63 - threadIdx.x];
  out[i + 64] = s[1][63 - threadIdx.x];
}

extern "C" __global__ void barrier_objects(const int *in, int *out) {
  __shared__ unsigned long long bar;
  __shared__ int s[64];
  unsigned at = __cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at));
  __syncthreads();
  for (int phase = 0; phase < 3; phase++) {
    s[threadIdx.x] = in[threadIdx.x] + phase;
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    int done = 0;
    while (!done) asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "l"(state) : "memory");
    out[threadIdx.x + 64 * phase] = s[63 - threadIdx.x];
    __syncthreads();
  }
}

extern "C" __global__ void reduce_add(const int *in, int *out) {
  out[threadIdx.x] = __reduce_add_sync(~0u, in[threadIdx.x]);
  out[threadIdx.x + 32] = __reduce_max_sync(~0u, in[threadIdx.x]);
  out[threadIdx.x + 64] = __reduce_xor_sync(~0u, in[threadIdx.x]);
}
#endif
