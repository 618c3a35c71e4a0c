/* The loops of bench/ptx.ts in C, as gcc -O2 compiles them. Prints the milliseconds of each, the least of ten. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define APART __attribute__((noinline)) void
#define N (1 << 20)

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

#define MEASURE(name, call)                                  \
  {                                                          \
    double best = 1e9;                                       \
    for (int round = 0; round < 10; round++) {               \
      double start = now();                                  \
      call;                                                  \
      double spent = now() - start;                          \
      if (spent < best) best = spent;                        \
    }                                                        \
    printf("%s %f\n", name, best);                           \
  }

APART axpy(float a, const float *x, float *y, int n) {
  for (int i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}
APART mandelbrot(int *out, int w, int h, int limit) {
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      double cr = -2 + 3.0 * x / w, ci = -1 + 2.0 * y / h, r = 0, i = 0;
      int n = 0;
      while (n < limit) {
        double rr = r * r, ii = i * i;
        if (rr + ii > 4) break;
        i = 2 * r * i + ci;
        r = rr - ii + cr;
        n++;
      }
      out[y * w + x] = n;
    }
}
static float normal(float d) {
  float k = 1 / (1 + 0.2316419f * fabsf(d));
  float c = 0.39894228f * expf(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1 - c : c;
}
APART black_scholes(float *call, float *put, const float *price, const float *strike, const float *years, float rate, float v, int n) {
  for (int i = 0; i < n; i++) {
    float s = price[i], x = strike[i], t = years[i], q = sqrtf(t);
    float d1 = (logf(s / x) + (rate + 0.5f * v * v) * t) / (v * q), d2 = d1 - v * q, e = expf(-rate * t);
    call[i] = s * normal(d1) - x * e * normal(d2);
    put[i] = x * e * (1 - normal(d2)) - s * (1 - normal(d1));
  }
}
APART stencil(const double *in, double *out, int w, int h) {
  for (int y = 1; y < h - 1; y++)
    for (int x = 1; x < w - 1; x++) {
      int i = y * w + x;
      out[i] = 0.5 * in[i] + 0.125 * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
    }
}
APART convolve(const float *filter, const float *in, float *out, int w, int h) {
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      float sum = 0;
      for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++) {
          int sx = x + i < 0 ? 0 : x + i > w - 1 ? w - 1 : x + i, sy = y + j < 0 ? 0 : y + j > h - 1 ? h - 1 : y + j;
          sum += filter[(j + 2) * 5 + i + 2] * in[sy * w + sx];
        }
      out[y * w + x] = sum;
    }
}
APART matmul(const float *a, const float *b, float *c, int n) {
  for (int y = 0; y < n; y++)
    for (int x = 0; x < n; x++) {
      float sum = 0;
      for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
      c[y * n + x] = sum;
    }
}
APART softmax(const float *in, float *out, int rows, int columns) {
  for (int r = 0; r < rows; r++) {
    const float *row = in + r * columns;
    float best = row[0], sum = 0;
    for (int i = 0; i < columns; i++)
      if (row[i] > best) best = row[i];
    for (int i = 0; i < columns; i++) sum += expf(row[i] - best);
    for (int i = 0; i < columns; i++) out[r * columns + i] = expf(row[i] - best) / sum;
  }
}
APART nbody(const float *bodies, float *forces, int n) {
  for (int i = 0; i < n; i++) {
    float ax = 0, ay = 0, az = 0;
    for (int j = 0; j < n; j++) {
      float dx = bodies[4 * j] - bodies[4 * i], dy = bodies[4 * j + 1] - bodies[4 * i + 1], dz = bodies[4 * j + 2] - bodies[4 * i + 2];
      float d = dx * dx + dy * dy + dz * dz + 0.01f, inv = 1 / sqrtf(d), f = bodies[4 * j + 3] * inv * inv * inv;
      ax += dx * f;
      ay += dy * f;
      az += dz * f;
    }
    forces[4 * i] = ax;
    forces[4 * i + 1] = ay;
    forces[4 * i + 2] = az;
  }
}

int main(void) {
  float *x = malloc(4 * N), *y = malloc(4 * N), *z = malloc(4 * N), *w = malloc(4 * N), *v = malloc(4 * N);
  double *a = malloc(8 * N), *b = malloc(8 * N);
  float filter[25];
  for (int i = 0; i < N; i++) {
    x[i] = rand() / 2147483648.0f + 0.5f;
    y[i] = rand() / 2147483648.0f + 0.5f;
    v[i] = rand() / 2147483648.0f + 0.5f;
    a[i] = x[i];
  }
  for (int i = 0; i < 25; i++) filter[i] = x[i];
  MEASURE("axpy", axpy(0.5f, x, y, N))
  MEASURE("mandelbrot", mandelbrot((int *)z, 512, 512, 1000))
  MEASURE("black_scholes", black_scholes(z, w, x, y, v, 0.02f, 0.3f, N / 4))
  MEASURE("stencil", stencil(a, b, 1024, 1024))
  MEASURE("convolve", convolve(filter, x, z, 512, 512))
  MEASURE("matmul_tiled", matmul(x, y, z, 256))
  MEASURE("softmax", softmax(x, z, 256, 4096))
  MEASURE("nbody", nbody(x, z, 1024))
  return 0;
}
