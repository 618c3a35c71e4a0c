// Transposes a matrix in tiles by tensor maps, and sums over the blocks of a cluster.
#include <cooperative_groups.h>
#include <cuda.h>

namespace cg = cooperative_groups;

__device__ static unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__global__ void transpose(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
  __shared__ alignas(128) float tile[16][16], turned[16][16];
  __shared__ unsigned long long bar;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async;" ::"r"(at(&bar)));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&bar)), "r"((int)sizeof(tile)));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                     "r"(at(tile)), "l"(&from), "r"(blockIdx.x * 16), "r"(blockIdx.y * 16), "r"(at(&bar)) : "memory");
  }
  __syncthreads();
  asm volatile("{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra AGAIN;\n}" ::"r"(at(&bar)) : "memory");
  for (int i = threadIdx.x; i < 256; i += blockDim.x) turned[i % 16][i / 16] = tile[i / 16][i % 16];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::
                     "l"(&to), "r"(blockIdx.y * 16), "r"(blockIdx.x * 16), "r"(at(turned)) : "memory");
}

__global__ void __cluster_dims__(4) sum(const int *values, int *sums) {
  __shared__ int own;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) own = 0;
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(&own, 0), values[blockIdx.x * blockDim.x + threadIdx.x]);
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) sums[blockIdx.x / 4] = own;
}
