// Tensor maps, bulk copies and clusters, as programs for sm_90 use them.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>

// As in cuda.h, which NVRTC does not take.
typedef struct alignas(64) CUtensorMap_st {
  unsigned long long opaque[16];
} CUtensorMap;

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
using barrier = cuda::barrier<cuda::thread_scope_block>;

__device__ unsigned shared32(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void mbarrier_init(unsigned long long *bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared32(bar)), "r"(count));
}
__device__ void mbarrier_arrive(unsigned long long *bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared32(bar)) : "memory");
}
__device__ void mbarrier_expect(unsigned long long *bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared32(bar)), "r"(bytes) : "memory");
}
__device__ void mbarrier_wait(unsigned long long *bar, int phase) {
  asm volatile(
      "{\n.reg .pred P1;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra WAIT;\nDONE:\n}"
      ::"r"(shared32(bar)), "r"(phase) : "memory");
}
__device__ void load_tile(void *to, const CUtensorMap *map, int x, int y, unsigned long long *bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                   "r"(shared32(to)), "l"(map), "r"(x), "r"(y), "r"(shared32(bar)) : "memory");
}

// A product of matrices in tiles: a warp loads tiles ahead into three stages, four others compute.
#define TILE 32
#define STAGES 3
extern "C" __global__ void __launch_bounds__(160) hopper_matmul(const __grid_constant__ CUtensorMap a,
                                                                const __grid_constant__ CUtensorMap b,
                                                                const __grid_constant__ CUtensorMap c, int k) {
  __shared__ alignas(128) float tileA[STAGES][TILE][TILE];
  __shared__ alignas(128) float tileB[STAGES][TILE][TILE];
  __shared__ alignas(128) float tileC[TILE][TILE];
  __shared__ unsigned long long full[STAGES], empty[STAGES];
  const int steps = k / TILE, row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      mbarrier_init(&full[i], 1);
      mbarrier_init(&empty[i], 128);
    }
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int step = 0; step < steps; step++) {
        const int stage = step % STAGES, round = step / STAGES;
        if (round > 0) mbarrier_wait(&empty[stage], (round - 1) & 1);
        mbarrier_expect(&full[stage], 2 * TILE * TILE * sizeof(float));
        load_tile(tileA[stage], &a, step * TILE, row, &full[stage]);
        load_tile(tileB[stage], &b, column, step * TILE, &full[stage]);
      }
    }
  } else {
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE * 8;
    float sum[8] = {};
    for (int step = 0; step < steps; step++) {
      const int stage = step % STAGES;
      mbarrier_wait(&full[stage], step / STAGES & 1);
      for (int i = 0; i < TILE; i++)
        for (int j = 0; j < 8; j++) sum[j] += tileA[stage][y + j][i] * tileB[stage][i][x];
      mbarrier_arrive(&empty[stage]);
    }
    for (int j = 0; j < 8; j++) tileC[y + j][x] = sum[j];
    asm volatile("fence.proxy.async.shared::cta;\nbar.sync 1, 128;" ::: "memory");
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n"
                   "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::
                       "l"(&c), "r"(column), "r"(row), "r"(shared32(tileC)) : "memory");
    }
  }
}

// A histogram whose bins are spread over the shared memory of the blocks of a cluster.
extern "C" __global__ void hopper_histogram(int *bins, int perBlock, const int *values, int count) {
  extern __shared__ int mine[];
  cg::cluster_group cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < perBlock; i += blockDim.x) mine[i] = 0;
  cluster.sync();
  const int total = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += total) {
    const int bin = values[i];
    int *there = cluster.map_shared_rank(mine, bin / perBlock);
    atomicAdd(there + bin % perBlock, 1);
  }
  cluster.sync();
  int *own = bins + cluster.block_rank() * perBlock;
  for (int i = threadIdx.x; i < perBlock; i += blockDim.x) atomicAdd(own + i, mine[i]);
}

// A sum over a cluster: each block sends its own to block 0, which counts the bytes.
extern "C" __global__ void hopper_sum(const int *values, int *out) {
  __shared__ int sums[16];
  __shared__ unsigned long long bar;
  __shared__ int partial;
  cg::cluster_group cluster = cg::this_cluster();
  const int blocks = cluster.num_blocks(), rank = cluster.block_rank();
  if (threadIdx.x == 0) {
    partial = 0;
    mbarrier_init(&bar, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (rank == 0) mbarrier_expect(&bar, blocks * sizeof(int));
  }
  cluster.sync();
  atomicAdd(&partial, values[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned to, at;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(to) : "r"(shared32(&sums[rank])));
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(at) : "r"(shared32(&bar)));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to), "r"(partial), "r"(at)
                 : "memory");
  }
  if (rank == 0) {
    mbarrier_wait(&bar, 0);
    if (threadIdx.x < blocks) atomicAdd(out + blockIdx.x / blocks, sums[threadIdx.x]);
  }
  cluster.sync();
}

// A tile that one block loads for all of its cluster.
extern "C" __global__ void hopper_multicast(const __grid_constant__ CUtensorMap map, float *out) {
  __shared__ alignas(128) float tile[16][16];
  __shared__ unsigned long long bar;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    mbarrier_init(&bar, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    mbarrier_expect(&bar, sizeof(tile));
  }
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) {
    const unsigned short all = (1 << cluster.num_blocks()) - 1;
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::
                     "r"(shared32(tile)), "l"(&map), "r"(4), "r"((int)(blockIdx.x / cluster.num_blocks()) * 8), "r"(shared32(&bar)), "h"(all)
                 : "memory");
  }
  mbarrier_wait(&bar, 0);
  float sum = 0;
  for (int i = 0; i < 16; i++) sum += tile[i][threadIdx.x] * (cluster.block_rank() + 1);
  out[blockIdx.x * 16 + threadIdx.x] = sum;
  cluster.sync();
}

// Bulk copies both ways, as in NVIDIA's guide: by cuda::barrier and cuda::ptx.
extern "C" __global__ void hopper_add_one(int *data, int count) {
  constexpr int length = 1024;
  __shared__ alignas(16) int part[length];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier bar;
  const int begin = blockIdx.x * length;
  if (begin >= count) return;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::memcpy_async(part, data + begin, cuda::aligned_size_t<16>(sizeof(part)), bar);
    token = bar.arrive();
  } else
    token = bar.arrive();
  bar.wait(std::move(token));
  for (int i = threadIdx.x; i < length; i += blockDim.x) part[i] += 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, data + begin, part, sizeof(part));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
