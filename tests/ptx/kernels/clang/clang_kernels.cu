// For clang without CUDA's headers:
// clang -x cuda --cuda-gpu-arch=sm_75 --cuda-device-only -S -nocudainc -nocudalib -Xclang -target-feature -Xclang +ptx63 -O2 -o ../clang_o2.ptx clang_kernels.cu, too -O0
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define TID __nvvm_read_ptx_sreg_tid_x()
#define CTAID __nvvm_read_ptx_sreg_ctaid_x()
#define NTID __nvvm_read_ptx_sreg_ntid_x()

extern "C" __global__ void axpy(float a, const float *x, float *y, int n) {
  int i = CTAID * NTID + TID;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void sum(const int *in, int *out) {
  __shared__ int s[128];
  int t = TID;
  s[t] = in[CTAID * 128 + t];
  __syncthreads();
  for (int step = 64; step; step >>= 1) {
    if (t < step) s[t] += s[t + step];
    __syncthreads();
  }
  if (t == 0) __nvvm_atom_add_gen_i(out, s[0]);
}

struct Pair { double a; long long b; char c[3]; };
__device__ __attribute__((noinline)) Pair twice(Pair p, int k) { p.a *= k; p.b += k; p.c[k % 3] = (char)k; return p; }
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void calls(Pair *p, int *out) {
  int t = TID;
  p[t] = twice(p[t], t + 1);
  out[t] = fibonacci(t);
}

extern "C" __global__ void sorted(int *data, int n) {
  int copy[16];
  int *own = data + TID * n;
  for (int i = 0; i < n; i++) copy[i] = own[i];
  for (int i = 1; i < n; i++) {
    int v = copy[i], j = i;
    for (; j > 0 && copy[j - 1] > v; j--) copy[j] = copy[j - 1];
    copy[j] = v;
  }
  for (int i = 0; i < n; i++) own[i] = copy[i];
}

extern "C" __global__ void warp_sum(const float *in, float *out) {
  float v = in[TID];
  for (int step = 16; step; step >>= 1) v += __nvvm_shfl_sync_bfly_f32(0xffffffffu, v, step, 31);
  out[TID] = v;
}

extern "C" __global__ void switched(const int *in, long long *out) {
  long long v = in[TID];
  switch (v) {
    case 0: v = 10; break;
    case 1: v = v << 40; break;
    case 2: v = -v / 7; break;
    case 3: v = v * 1000003 % 17; break;
    case 4: v = __builtin_popcountll(~v); break;
    case 5: v = __builtin_clzll(v); break;
    default: v = v > 9 ? v * v : -1;
  }
  out[TID] = v;
}
