// Products of matrices by warpgroups, for sm_90a: both matrices in shared memory, and one of them in registers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// A matrix in shared memory whose rows have 128 bytes, and whose units of 16 bytes are exchanged within eight rows.
__device__ unsigned long long descriptor(const void *matrix) {
  unsigned long long address = __cvta_generic_to_shared(matrix);
  return (address >> 4 & 0x3fff) | 1024ull >> 4 << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

__device__ int exchanged(int row, int unit) { return row * 128 + (unit ^ row & 7) * 16; }

__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ void show() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define SUMS(d) \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), \
      "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), \
      "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
      "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define PLACES \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"

__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b, int sums) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " PLACES
               ", %32, %33, p, 1, 1, 0, 0;}"
               : SUMS(d)
               : "l"(a), "l"(b), "r"(sums));
}

__device__ void multiply(float (&d)[32], const unsigned (&a)[4], unsigned long long b, int sums) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " PLACES
               ", {%32,%33,%34,%35}, %36, p, 1, 1, 1;}"
               : SUMS(d)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(sums));
}

__device__ void leave(const float (&d)[32], float *c, int row, int column, int n) {
  int lane = threadIdx.x & 31;
  row += 16 * (threadIdx.x >> 5 & 3) + (lane >> 2);
  for (int i = 0; i < 32; i++)
    c[(row + 8 * (i >> 1 & 1)) * n + column + 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)] = d[i];
}

// Two warpgroups: 128 rows of a, which has k columns, times 64 columns of b, which lie in rows of k.
extern "C" __global__ void matmul_warpgroups(const __half *a, const __half *b, float *c, int n, int k) {
  __shared__ __align__(1024) unsigned char rows[128 * 128], columns[64 * 128];
  int group = threadIdx.x >> 7, top = blockIdx.y * 128, left = blockIdx.x * 64;
  float d[32];
  for (int begin = 0; begin < k; begin += 64) {
    for (int i = threadIdx.x; i < 192 * 8; i += 256) {
      int row = i >> 3, unit = i & 7;
      const __half *from = row < 128 ? a + (top + row) * k : b + (left + row - 128) * k;
      unsigned char *into = row < 128 ? rows + exchanged(row, unit) : columns + exchanged(row - 128, unit);
      *(uint4 *)into = *(const uint4 *)(from + begin + 8 * unit);
    }
    show();
    __syncthreads();
    fence();
    for (int step = 0; step < 4; step++)
      multiply(d, descriptor(rows + group * 64 * 128 + step * 32), descriptor(columns + step * 32), begin + step);
    commit();
    wait();
    __syncthreads();
  }
  leave(d, c, top + group * 64, left, n);
}

// One warpgroup: 64 rows of a, rounded to bf16 in registers, times 64 columns of b, whose rows lie in memory as they are.
extern "C" __global__ void matmul_registers(const float *a, const __nv_bfloat16 *b, float *c, int n, int k) {
  __shared__ __align__(1024) unsigned char rows[64 * 128];
  int lane = threadIdx.x & 31, top = blockIdx.y * 64, left = blockIdx.x * 64;
  const float *own = a + (top + 16 * (threadIdx.x >> 5) + (lane >> 2)) * k + 2 * (lane & 3);
  float d[32];
  for (int begin = 0; begin < k; begin += 64) {
    for (int i = threadIdx.x; i < 64 * 8; i += 128)
      *(uint4 *)(rows + exchanged(i >> 3, i & 7)) = *(const uint4 *)(b + (begin + (i >> 3)) * n + left + 8 * (i & 7));
    unsigned registers[4][4];
    for (int step = 0; step < 4; step++)
      for (int i = 0; i < 4; i++) {
        const float *pair = own + begin + 16 * step + (i & 1) * 8 * k + (i >> 1) * 8;
        __nv_bfloat162 both = __floats2bfloat162_rn(pair[0], pair[1]);
        registers[step][i] = *(unsigned *)&both;
      }
    show();
    __syncthreads();
    fence();
    for (int step = 0; step < 4; step++) multiply(d, registers[step], descriptor(rows + step * 2048), begin + step);
    commit();
    wait();
    __syncthreads();
  }
  leave(d, c, top, left, n);
}
