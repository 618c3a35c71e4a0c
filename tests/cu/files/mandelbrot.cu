#include <cmath>
#include <complex>
#include <fstream>

#ifdef __CUDACC__
#define HD __host__ __device__ __forceinline__
#else
#define HD
#endif
#define KERNEL extern "C" __global__

struct Complex {
  double re, im;
  HD Complex(double re, double im) : re(re), im{im} {}
  HD Complex operator+(const Complex &other) const { return Complex(re + other.re, im + other.im); }
  HD Complex operator*(const Complex &o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
  HD double norm() const { return re * re + im * im; }
  Complex(const std::complex<double> &from) : re(from.real()), im(from.imag()) {}
  std::complex<double> toHost() const { return {re, im}; }
  bool operator<(const Complex &other) const { return norm() < other.norm(); }
  bool operator()(int a) const { return a > 0; }
};

#if 0
KERNEL void mandelbrot(float *image) { image[0] = 1; }
#endif

KERNEL void mandelbrot(unsigned short *counts, int width, int height, double left, double top, double scale, short most) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const Complex c(left + x * scale, top + y * scale);
  Complex z(0, 0);
  unsigned short count = 0;
  while (count < most && z.norm() <= 4) {
    z = z * z + c;
    ++count;
  }
  counts[y * width + x] = count;
}

static void write(const char *name, const unsigned char *bytes, size_t size) {
  std::ofstream stream(name, std::ios::binary);
  stream.write(reinterpret_cast<const char *>(bytes), size);
}
