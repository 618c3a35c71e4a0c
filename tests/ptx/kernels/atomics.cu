// Atomics of all kinds.
#include <cuda_fp16.h>
extern "C" __global__ void atomics_int(int *i, unsigned *u, long long *l, unsigned long long *ul) {
  int t = threadIdx.x;
  atomicAdd(i, t);
  atomicSub(i + 1, t);
  atomicMax(i + 2, t * 7 % 61 - 30);
  atomicMin(i + 3, t * 7 % 61 - 30);
  atomicAnd(i + 4, ~(1 << (t & 31)));
  atomicOr(i + 5, 1 << (t & 15));
  atomicXor(i + 6, t);
  atomicExch(i + 7, 5);
  atomicInc(u, 40);
  atomicDec(u + 1, 40);
  atomicMax(u + 2, t * 2654435761u);
  atomicMin(u + 3, t * 2654435761u);
  atomicMax(l, (long long)(t - 20) << 33);
  atomicMin(l + 1, (long long)(t - 20) << 33);
  atomicAdd(ul, 1ull << 33);
  atomicOr(ul + 1, 1ull << t);
  atomicCAS(ul + 2, 0ull, 77ull);
}
extern "C" __global__ void atomics_float(float *f, double *d, __half2 *h) {
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicAdd(h, __floats2half2_rn(1.0f, 2.0f));
}
// What many programs have from before there were atomics of doubles.
__device__ double addByCas(double *p, double v) {
  unsigned long long *a = (unsigned long long *)p, old = *a, seen;
  do { seen = old; old = atomicCAS(a, seen, __double_as_longlong(v + __longlong_as_double(seen))); } while (seen != old);
  return __longlong_as_double(old);
}
extern "C" __global__ void atomics_by_cas(double *d) { addByCas(d, threadIdx.x * 0.5); }
extern "C" __global__ void atomics_shared(int *out) {
  __shared__ int s[4];
  __shared__ float f;
  if (threadIdx.x < 4) s[threadIdx.x] = 0;
  if (threadIdx.x == 0) f = 0;
  __syncthreads();
  int ticket = atomicAdd(&s[0], 1);
  atomicMax(&s[1], (int)threadIdx.x);
  atomicAdd(&f, 2.0f);
  __syncthreads();
  out[ticket] = ticket + s[1] + (int)f;
}
extern "C" __global__ void atomics_return(int *cell, int *out) { out[threadIdx.x] = atomicAdd(cell, 3); }
