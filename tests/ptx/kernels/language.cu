// What the language has: pointers to functions, recursion, structures, templates, virtual functions, printf, assert.

typedef float (*Operation)(float, float);
__device__ float plus_(float a, float b) { return a + b; }
__device__ float times_(float a, float b) { return a * b; }
__device__ float power_(float a, float b) { float r = 1; for (int i = 0; i < (int)b; i++) r *= a; return r; }
__device__ Operation operations[3] = {plus_, times_, power_};
extern "C" __global__ void function_pointers(const int *which, const float *a, const float *b, float *out) {
  int i = threadIdx.x;
  out[i] = operations[which[i]](a[i], b[i]);
}

__device__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
__device__ __noinline__ int hanoi(int n, int from, int to, int via) { return n == 0 ? 0 : hanoi(n - 1, from, via, to) + 1 + hanoi(n - 1, via, to, from); }
extern "C" __global__ void recursion(int *out) {
  out[threadIdx.x] = ackermann(2, threadIdx.x);
  out[threadIdx.x + 8] = hanoi(threadIdx.x, 0, 1, 2);
}

struct Particle { double mass; float3 position; short tags[5]; char name; };
__device__ __noinline__ Particle moved(Particle p, float3 by, int tag) {
  p.position.x += by.x; p.position.y += by.y; p.position.z += by.z; p.mass *= 2; p.tags[tag] = p.name;
  return p;
}
extern "C" __global__ void structures(Particle *all, Particle given, int n) {
  int i = threadIdx.x;
  if (i < n) all[i] = moved(all[i], make_float3(i, given.position.y, 1), i % 5);
}

struct Shape { __device__ virtual float area() const = 0; };
struct Circle : Shape { float r; __device__ Circle(float r) : r(r) {} __device__ float area() const override { return 3 * r * r; } };
struct Box : Shape { float a, b; __device__ Box(float a, float b) : a(a), b(b) {} __device__ float area() const override { return a * b; } };
extern "C" __global__ void virtual_functions(float *out) {
  Circle c(threadIdx.x);
  Box b(threadIdx.x, 2);
  Shape *s = threadIdx.x & 1 ? (Shape *)&c : (Shape *)&b;
  out[threadIdx.x] = s->area();
}

template <int N> struct Sum { template <class T> __device__ static T of(const T *p) { return p[N - 1] + Sum<N - 1>::of(p); } };
template <> struct Sum<0> { template <class T> __device__ static T of(const T *) { return T(0); } };
template <class F> __device__ float integral(F f, float a, float b, int n) { float s = 0; for (int i = 0; i < n; i++) s += f(a + (b - a) * (i + 0.5f) / n); return s * (b - a) / n; }
extern "C" __global__ void templates(const double *in, double *out, float *area, float k) {
  out[threadIdx.x] = Sum<7>::of(in + threadIdx.x);
  area[threadIdx.x] = integral([=](float x) { return k * x * x; }, 0, threadIdx.x, 30);
}

extern "C" __global__ void printing(const char *word, double d) {
  if (threadIdx.x == 2) printf("%d %5.2f|%-6s|%c %x %llu %e %g %%\n", -7, d, word, 'z', 255u, 1ull << 40, d, d);
  if (threadIdx.x == 1) printf("hello %s from %u\n", "thread", threadIdx.x);
}

extern "C" __global__ void asserting(const int *in) { assert(in[threadIdx.x] < 10 && "too large"); }
extern "C" __global__ void trapping(const int *in) { if (in[threadIdx.x] > 3) __trap(); }

extern "C" __global__ void switching(const int *in, int *out) {
  int v = in[threadIdx.x], r;
  switch (v) {
    case 0: r = 5; break;
    case 1: r = v * 3; break;
    case 2: r = v - 9;
    case 3: r = r + 2; break;
    case 4: case 5: r = v << 4; break;
    case 6: r = out[0] * 0 - 4; break;
    case 7: r = v % 3; break;
    case 8: r = v * v * v; break;
    default: r = -1;
  }
  if (v == 3) r = 77;
  out[threadIdx.x] = r;
}

extern "C" __global__ void local_arrays(const int *in, int *out) {
  int a[40], n = in[threadIdx.x];
  for (int i = 0; i < 40; i++) a[i] = i * i;
  for (int i = 0; i < 40; i++) a[(i * 7 + n) % 40] += a[i];
  int s = 0;
  for (int i = 0; i < 40; i++) s = s * 31 + a[(i + n) % 40];
  out[threadIdx.x] = s;
}

__device__ int counter = 100;
__device__ int table[4] = {1, 2, 3, 4};
__device__ int *pointer = table + 2;
__constant__ float scales[3] = {0.5f, 2.0f, 4.0f};
extern "C" __global__ void globals(float *out) {
  int old = atomicAdd(&counter, 1);
  out[threadIdx.x] = scales[threadIdx.x % 3] * *pointer + (old >= 100);
}

extern "C" __global__ void generic(int *in, int *out, int which) {
  __shared__ int s[32];
  int l[4] = {1, 2, 3, (int)threadIdx.x};
  s[threadIdx.x] = 100 + threadIdx.x;
  __syncthreads();
  int *p = which == 0 ? in : which == 1 ? s : l;
  out[threadIdx.x] = p[threadIdx.x & 3] + (__isShared(p) ? 1000 : 0) + (__isGlobal(p) ? 2000 : 0) + (__isLocal(p) ? 4000 : 0);
}

// Barriers in a function that is not inlined, and in a recursion.
__device__ __noinline__ int exchange(int *s, int v, int depth) {
  s[threadIdx.x] = v;
  __syncthreads();
  int r = s[(threadIdx.x + 1) % blockDim.x];
  __syncthreads();
  return depth == 0 ? r : r + exchange(s, r, depth - 1);
}
extern "C" __global__ void barrier_in_function(int *out) {
  __shared__ int s[64];
  out[threadIdx.x] = exchange(s, threadIdx.x, 3);
}

extern "C" __global__ void heap(int **out, int n) {
  int *p = (int *)malloc(4 * n);
  for (int i = 0; i < n; i++) p[i] = i * threadIdx.x;
  int s = 0;
  for (int i = 0; i < n; i++) s += p[i];
  ((int *)out)[threadIdx.x] = s;
  free(p);
}

extern "C" __global__ void special_registers(unsigned *out) {
  unsigned t = threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y;
  unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), lane, warp, le;
  asm("mov.u32 %0, %laneid;" : "=r"(lane));
  asm("mov.u32 %0, %warpid;" : "=r"(warp));
  asm("mov.u32 %0, %lanemask_le;" : "=r"(le));
  unsigned *p = out + (b * blockDim.x * blockDim.y * blockDim.z + t) * 4;
  p[0] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
  p[1] = blockIdx.x | blockIdx.y << 8 | blockIdx.z << 16;
  p[2] = lane | warp << 8;
  p[3] = le;
}

extern "C" __global__ void clocks(long long *out) {
  long long t0 = clock64();
  while (clock64() - t0 < 10000) {}
  __nanosleep(100);
  out[0] = clock64() - t0;
}
