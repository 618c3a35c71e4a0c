// Physics, finance, graphs and random numbers.
extern "C" __global__ void axpy(float a, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void stencil(const double *in, double *out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  int i = y * w + x;
  out[i] = 0.5 * in[i] + 0.125 * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
}

__device__ float normal(float d) {
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  float c = 0.39894228f * expf(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1.0f - c : c;
}

extern "C" __global__ void black_scholes(float *call, float *put, const float *price, const float *strike, const float *years, float rate, float volatility, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = price[i], x = strike[i], t = years[i], q = sqrtf(t);
  float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * q), d2 = d1 - volatility * q;
  float e = expf(-rate * t);
  call[i] = s * normal(d1) - x * e * normal(d2);
  put[i] = x * e * (1.0f - normal(d2)) - s * (1.0f - normal(d1));
}

extern "C" __global__ void nbody(const float4 *bodies, float4 *forces, int n) {
  __shared__ float4 tile[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 own = bodies[i];
  float ax = 0, ay = 0, az = 0;
  for (int begin = 0; begin < n; begin += 128) {
    tile[threadIdx.x] = bodies[begin + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 128; j++) {
      float dx = tile[j].x - own.x, dy = tile[j].y - own.y, dz = tile[j].z - own.z;
      float d = dx * dx + dy * dy + dz * dz + 0.01f, inv = rsqrtf(d), f = tile[j].w * inv * inv * inv;
      ax += dx * f;
      ay += dy * f;
      az += dz * f;
    }
    __syncthreads();
  }
  forces[i] = make_float4(ax, ay, az, 0);
}

extern "C" __global__ void spmv(const int *rows, const int *columns, const double *values, const double *x, double *y, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  double sum = 0;
  for (int i = rows[row]; i < rows[row + 1]; i++) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

extern "C" __global__ void bfs(const int *starts, const int *edges, int *level, int now, int *changed, int n) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n || level[v] != now) return;
  for (int i = starts[v]; i < starts[v + 1]; i++)
    if (atomicCAS(&level[edges[i]], -1, now + 1) == -1) *changed = 1;
}

__device__ uint4 philox(uint4 c, uint2 k) {
  for (int i = 0; i < 10; i++) {
    unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
    c = make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
    k.x += 0x9E3779B9u;
    k.y += 0xBB67AE85u;
  }
  return c;
}
extern "C" __global__ void random_numbers(uint4 *out, unsigned seed, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = philox(make_uint4(i, 0, 0, 0), make_uint2(seed, 7));
}

extern "C" __global__ void pi_monte_carlo(unsigned long long *inside, int rounds) {
  unsigned s = blockIdx.x * blockDim.x + threadIdx.x + 1;
  int count = 0;
  for (int i = 0; i < rounds; i++) {
    s = s * 1664525u + 1013904223u;
    float x = (s >> 8) * (1.0f / 16777216);
    s = s * 1664525u + 1013904223u;
    float y = (s >> 8) * (1.0f / 16777216);
    count += x * x + y * y < 1;
  }
  atomicAdd(inside, (unsigned long long)count);
}

extern "C" __global__ void game_of_life(const unsigned char *in, unsigned char *out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int n = 0;
  for (int j = -1; j <= 1; j++) for (int i = -1; i <= 1; i++) if (i || j) n += in[((y + j + h) % h) * w + (x + i + w) % w];
  out[y * w + x] = n == 3 || (n == 2 && in[y * w + x]);
}

extern "C" __global__ void fft64(float2 *data) {
  __shared__ float2 s[64];
  int t = threadIdx.x;
  s[__brev(t) >> 26] = data[blockIdx.x * 64 + t];
  __syncthreads();
  for (int half = 1; half < 64; half <<= 1) {
    if (t < 32) {
      int k = t & (half - 1), i = ((t & ~(half - 1)) << 1) | k;
      float c, d;
      sincospif(-(float)k / half, &d, &c);
      float2 a = s[i], b = s[i + half];
      float2 p = make_float2(b.x * c - b.y * d, b.x * d + b.y * c);
      s[i] = make_float2(a.x + p.x, a.y + p.y);
      s[i + half] = make_float2(a.x - p.x, a.y - p.y);
    }
    __syncthreads();
  }
  data[blockIdx.x * 64 + t] = s[t];
}

extern "C" __global__ void kmeans_assign(const float2 *points, const float2 *centers, int *out, float *sums, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 p = points[i];
  float best = __int_as_float(0x7f800000);
  int which = 0;
  for (int c = 0; c < k; c++) {
    float dx = p.x - centers[c].x, dy = p.y - centers[c].y, d = dx * dx + dy * dy;
    if (d < best) { best = d; which = c; }
  }
  out[i] = which;
  atomicAdd(&sums[3 * which], p.x);
  atomicAdd(&sums[3 * which + 1], p.y);
  atomicAdd(&sums[3 * which + 2], 1.0f);
}
