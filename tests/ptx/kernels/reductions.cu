// Reductions, scans, histograms, and what warps do together.
extern "C" __global__ void sum_tree(const float *in, float *out, int n) {
  __shared__ float part[256];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  part[t] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int step = 128; step > 0; step >>= 1) {
    if (t < step) part[t] += part[t + step];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void sum_warp(const int *in, int *out, int n) {
  __shared__ int part[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int value = i < n ? in[i] : 0;
  for (int step = 16; step > 0; step >>= 1) value += __shfl_down_sync(~0u, value, step);
  if (lane == 0) part[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = lane < blockDim.x / 32 ? part[lane] : 0;
    for (int step = 16; step > 0; step >>= 1) value += __shfl_down_sync(~0u, value, step);
    if (lane == 0) atomicAdd(out, value);
  }
}

extern "C" __global__ void max_double(const double *in, double *out, int n) {
  __shared__ double part[128];
  double best = -1e300;
  for (int i = threadIdx.x; i < n; i += blockDim.x) best = fmax(best, in[i]);
  part[threadIdx.x] = best;
  __syncthreads();
  for (int step = 64; step > 0; step >>= 1) {
    if (threadIdx.x < step) part[threadIdx.x] = fmax(part[threadIdx.x], part[threadIdx.x + step]);
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = part[0];
}

extern "C" __global__ void scan_blelloch(const unsigned *in, unsigned *out) {
  __shared__ unsigned s[512];
  int t = threadIdx.x, offset = 1;
  s[2 * t] = in[blockIdx.x * 512 + 2 * t];
  s[2 * t + 1] = in[blockIdx.x * 512 + 2 * t + 1];
  for (int d = 256; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
    offset <<= 1;
  }
  if (t == 0) s[511] = 0;
  for (int d = 1; d < 512; d <<= 1) {
    offset >>= 1;
    __syncthreads();
    if (t < d) {
      unsigned a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1, v = s[a];
      s[a] = s[b];
      s[b] += v;
    }
  }
  __syncthreads();
  out[blockIdx.x * 512 + 2 * t] = s[2 * t];
  out[blockIdx.x * 512 + 2 * t + 1] = s[2 * t + 1];
}

extern "C" __global__ void scan_warp(const int *in, int *out) {
  int lane = threadIdx.x & 31, value = in[threadIdx.x];
  for (int step = 1; step < 32; step <<= 1) {
    int other = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value += other;
  }
  out[threadIdx.x] = value;
}

// One pass over all blocks: each looks back at the sums of those before it (decoupled look-back).
extern "C" __global__ void scan_lookback(const unsigned *in, unsigned *out, volatile unsigned *state, unsigned *ticket, int n) {
  __shared__ unsigned s[256];
  __shared__ unsigned block, before;
  int t = threadIdx.x;
  if (t == 0) block = atomicAdd(ticket, 1);
  __syncthreads();
  unsigned i = block * 256 + t;
  s[t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int step = 1; step < 256; step <<= 1) {
    unsigned v = t >= step ? s[t - step] : 0;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  if (t == 0) {
    unsigned total = s[255], sum = 0;
    if (block == 0) {
      state[0] = total | 0x80000000u;
    } else {
      state[block] = total | 0x40000000u;
      __threadfence();
      for (int at = block - 1;;) {
        unsigned v = state[at];
        if (v & 0x80000000u) { sum += v & 0x3fffffffu; break; }
        if (v & 0x40000000u) { sum += v & 0x3fffffffu; at--; }
      }
      state[block] = (sum + total) | 0x80000000u;
    }
    before = sum;
  }
  __syncthreads();
  if (i < n) out[i] = before + s[t];
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, int n) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  if (bins[threadIdx.x] != 0) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

extern "C" __global__ void compact(const int *in, int *out, int *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  int keep = i < n && in[i] % 3 == 0;
  unsigned ballot = __ballot_sync(~0u, keep);
  int base = 0;
  if (lane == 0) base = atomicAdd(count, __popc(ballot));
  base = __shfl_sync(~0u, base, 0);
  if (keep) out[base + __popc(ballot & ((1u << lane) - 1))] = in[i];
}

extern "C" __global__ void votes(const int *in, unsigned *out) {
  int v = in[threadIdx.x];
  unsigned all = __all_sync(~0u, v > 0), any = __any_sync(~0u, v > 90), same = 0;
  unsigned peers = __match_any_sync(~0u, v & 3);
  int pred;
  unsigned whole = __match_all_sync(~0u, v >> 10, &pred);
  if (threadIdx.x & 1) same = __ballot_sync(0xaaaaaaaau, v & 4);
  out[threadIdx.x * 6] = all;
  out[threadIdx.x * 6 + 1] = any;
  out[threadIdx.x * 6 + 2] = peers;
  out[threadIdx.x * 6 + 3] = whole;
  out[threadIdx.x * 6 + 4] = pred;
  out[threadIdx.x * 6 + 5] = same;
}

extern "C" __global__ void shuffles(const int *in, int *out) {
  int v = in[threadIdx.x], t = threadIdx.x;
  out[t] = __shfl_xor_sync(~0u, v, 5);
  out[t + 64] = __shfl_up_sync(~0u, v, 3, 8);
  out[t + 128] = __shfl_down_sync(~0u, v, 2, 16);
  out[t + 192] = __shfl_sync(~0u, v, (t * 7) & 31);
  double d = __shfl_sync(~0u, v * 1.5, 3, 4);
  out[t + 256] = (int)d;
  if (t & 2) out[t + 320] = __shfl_xor_sync(0xccccccccu, v, 1);
}

extern "C" __global__ void barrier_counts(const int *in, int *out) {
  int v = in[threadIdx.x];
  int n = __syncthreads_count(v > 50), a = __syncthreads_and(v >= 0), o = __syncthreads_or(v > 1000);
  out[threadIdx.x] = n * 4 + a * 2 + o;
}

// The last block to come adds up what all have left.
__device__ unsigned blocksDone;
extern "C" __global__ void last_block(const int *in, int *part, int *out, int n) {
  __shared__ bool last;
  __shared__ int s[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x] = i < n ? in[i] : 0;
  for (int step = 64; step > 0; step >>= 1) { __syncthreads(); if (threadIdx.x < step) s[threadIdx.x] += s[threadIdx.x + step]; }
  if (threadIdx.x == 0) {
    part[blockIdx.x] = s[0];
    __threadfence();
    last = atomicInc(&blocksDone, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) { int sum = 0; for (int b = 0; b < gridDim.x; b++) sum += ((volatile int *)part)[b]; *out = sum; }
}
