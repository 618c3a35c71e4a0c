#define MOST 60

// The picture of the Mandelbrot set, in a colour for each number of steps.
__global__ void mandelbrot(uchar4 *image, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const float re = 3.0f * x / width - 2.2f, im = 2.4f * y / height - 1.2f;
  float a = 0, b = 0;
  int steps = 0;
  for (; steps < MOST && a * a + b * b < 4; ++steps) {
    const float next = a * a - b * b + re;
    b = 2 * a * b + im;
    a = next;
  }
  const unsigned char shade = 255 - 255 * steps / MOST;
  image[y * width + x] = make_uchar4(shade, shade, 255 - shade / 3, 255);
}
