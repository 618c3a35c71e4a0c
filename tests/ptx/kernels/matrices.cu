// Products of matrices: plain, in tiles, in half precision, on tensor cores.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void matmul_plain(const float *a, const float *b, float *c, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n || y >= n) return;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}

extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int n) {
  __shared__ float sa[16][16], sb[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    sa[ty][tx] = a[y * n + k + tx];
    sb[ty][tx] = b[(k + ty) * n + x];
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += sa[ty][i] * sb[i][tx];
    __syncthreads();
  }
  c[y * n + x] = sum;
}

extern "C" __global__ void transpose(const float *in, float *out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void matvec_half2(const __half2 *a, const __half2 *x, float *y, int columns) {
  float2 sum = {0, 0};
  for (int i = threadIdx.x; i < columns / 2; i += 32) {
    float2 f = __half22float2(__hmul2(a[blockIdx.x * (columns / 2) + i], x[i]));
    sum.x += f.x;
    sum.y += f.y;
  }
  float total = sum.x + sum.y;
  for (int step = 16; step; step >>= 1) total += __shfl_xor_sync(~0u, total, step);
  if (threadIdx.x == 0) y[blockIdx.x] = total;
}

extern "C" __global__ void matvec_int8(const int *a, const int *x, int *y, int words) {
  int row = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int i = 0; i < words; i++) sum = __dp4a(a[row * words + i], x[i], sum);
  y[row] = sum;
}

extern "C" __global__ void matvec_int4(const unsigned *weights, const float *scale, const float *x, float *y, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < columns / 8; i++) {
    unsigned w = weights[row * (columns / 8) + i];
    for (int j = 0; j < 8; j++) sum += (float)((int)((w >> (4 * j)) & 15) - 8) * x[8 * i + j];
  }
  y[row] = sum * scale[row];
}

extern "C" __global__ void wmma_half(const half *a, const half *b, float *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int k = 0; k < 64; k += 16) {
    wmma::load_matrix_sync(fa, a + k, 64);
    wmma::load_matrix_sync(fb, b + k, 64);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] *= 2.0f;
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

extern "C" __global__ void wmma_half_sum(const half *a, const half *b, half *c) {
  __shared__ half sa[32 * 16], sb[8 * 16], sc[32 * 8];
  for (int i = threadIdx.x; i < 512; i += 32) sa[i] = a[i];
  for (int i = threadIdx.x; i < 128; i += 32) sb[i] = b[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, 32, 8, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 32, 8, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 32, 8, 16, half> fc;
  wmma::fill_fragment(fc, __float2half(1.0f));
  wmma::load_matrix_sync(fa, sa, 16);
  wmma::load_matrix_sync(fb, sb, 8);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(sc, fc, 8, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) c[i] = sc[i];
}

extern "C" __global__ void wmma_int8(const signed char *a, const signed char *b, int *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
  wmma::fill_fragment(fc, 7);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_col_major);
}

extern "C" __global__ void mma_half(const half *a, const half *b, float *c) {
  int lane = threadIdx.x, g = lane >> 2, t = lane & 3;
  unsigned ra[4], rb[2];
  const unsigned *pa = (const unsigned *)a, *pb = (const unsigned *)b;
#if __CUDA_ARCH__ >= 800
  ra[0] = pa[g * 8 + t];
  ra[1] = pa[(g + 8) * 8 + t];
  ra[2] = pa[g * 8 + t + 4];
  ra[3] = pa[(g + 8) * 8 + t + 4];
  rb[0] = pb[g * 8 + t];
  rb[1] = pb[g * 8 + t + 4];
  float d[4];
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]), "f"(0.5f));
#else
  float d[4] = {0.5f, 0.5f, 0.5f, 0.5f};
  for (int h = 0; h < 2; h++) {
    ra[0] = pa[g * 8 + t + 4 * h];
    ra[1] = pa[(g + 8) * 8 + t + 4 * h];
    rb[0] = pb[g * 8 + t + 4 * h];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(rb[0]));
  }
#endif
  c[g * 8 + 2 * t] = d[0];
  c[g * 8 + 2 * t + 1] = d[1];
  c[(g + 8) * 8 + 2 * t] = d[2];
  c[(g + 8) * 8 + 2 * t + 1] = d[3];
}

extern "C" __global__ void ldmatrix_copy(const unsigned short *in, unsigned *out) {
  __shared__ __align__(16) unsigned short s[256];
  for (int i = threadIdx.x; i < 256; i += 32) s[i] = in[i];
  __syncwarp();
  unsigned address = (unsigned)__cvta_generic_to_shared(s + threadIdx.x * 8), r[4], q[2];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(q[0]), "=r"(q[1]) : "r"(address));
  for (int i = 0; i < 4; i++) out[threadIdx.x * 6 + i] = r[i];
  out[threadIdx.x * 6 + 4] = q[0];
  out[threadIdx.x * 6 + 5] = q[1];
}

extern "C" __global__ void wmma_int4(const int *a, const int *b, int *c) {
  using namespace wmma::experimental;
  wmma::fragment<wmma::matrix_a, 8, 8, 32, precision::s4, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 32, precision::s4, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
  wmma::fill_fragment(fc, 0);
  wmma::load_matrix_sync(fa, a, 32);
  wmma::load_matrix_sync(fb, b, 32);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}

extern "C" __global__ void wmma_bits(const unsigned *a, const unsigned *b, int *c) {
  using namespace wmma::experimental;
  wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
  wmma::fill_fragment(fc, 3);
  wmma::load_matrix_sync(fa, a, 128);
  wmma::load_matrix_sync(fb, b, 128);
  wmma::bmma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void wmma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::col_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

extern "C" __global__ void wmma_tf32(const float *a, const float *b, float *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 8);
  wmma::load_matrix_sync(fb, b, 8);
  for (int i = 0; i < fa.num_elements; i++) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
  for (int i = 0; i < fb.num_elements; i++) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

extern "C" __global__ void wmma_double(const double *a, const double *b, double *c) {
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
  wmma::load_matrix_sync(fc, c, 8, wmma::mem_row_major);
  wmma::load_matrix_sync(fa, a, 4);
  wmma::load_matrix_sync(fb, b, 4);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}
#endif
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void matrix_moves(const unsigned *in, unsigned *out) {
  __shared__ __align__(16) unsigned s[64];
  unsigned v = in[threadIdx.x], t, address = (unsigned)__cvta_generic_to_shared(s + (threadIdx.x & 15) * 4);
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(t) : "r"(v));
  out[threadIdx.x] = t;
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(v), "r"(t) : "memory");
  __syncwarp();
  out[threadIdx.x + 32] = s[threadIdx.x];
  out[threadIdx.x + 64] = s[threadIdx.x + 32];
}
#endif
