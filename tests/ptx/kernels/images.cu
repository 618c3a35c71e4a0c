// Pictures.
extern "C" __global__ void nv12_to_rgb(const unsigned char *luma, const unsigned char *chroma, uchar4 *out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float l = 1.164f * (luma[y * width + x] - 16), u = chroma[(y / 2) * width + (x & ~1)] - 128.0f, v = chroma[(y / 2) * width + (x | 1)] - 128.0f;
  float r = l + 1.596f * v, g = l - 0.813f * v - 0.391f * u, b = l + 2.018f * u;
  out[y * width + x] = make_uchar4(fminf(fmaxf(r, 0), 255), fminf(fmaxf(g, 0), 255), fminf(fmaxf(b, 0), 255), 255);
}

extern "C" __global__ void resize(const unsigned char *in, unsigned char *out, int w, int h, int ow, int oh) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= ow || y >= oh) return;
  float sx = (x + 0.5f) * w / ow - 0.5f, sy = (y + 0.5f) * h / oh - 0.5f;
  int x0 = floorf(sx), y0 = floorf(sy);
  float fx = sx - x0, fy = sy - y0;
  int x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
  x0 = max(x0, 0);
  y0 = max(y0, 0);
  float top = in[y0 * w + x0] * (1 - fx) + in[y0 * w + x1] * fx, bottom = in[y1 * w + x0] * (1 - fx) + in[y1 * w + x1] * fx;
  out[y * ow + x] = (unsigned char)(top * (1 - fy) + bottom * fy + 0.5f);
}

__constant__ float filter[25];
extern "C" __global__ void convolve(const float *in, float *out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float sum = 0;
  for (int j = -2; j <= 2; j++)
    for (int i = -2; i <= 2; i++) {
      int sx = min(max(x + i, 0), w - 1), sy = min(max(y + j, 0), h - 1);
      sum += filter[(j + 2) * 5 + i + 2] * in[sy * w + sx];
    }
  out[y * w + x] = sum;
}

extern "C" __global__ void sobel(const unsigned char *in, unsigned char *out, int w, int h) {
  __shared__ unsigned char tile[18][18];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  for (int j = threadIdx.y; j < 18; j += 16)
    for (int i = threadIdx.x; i < 18; i += 16) {
      int sx = min(max((int)blockIdx.x * 16 + i - 1, 0), w - 1), sy = min(max((int)blockIdx.y * 16 + j - 1, 0), h - 1);
      tile[j][i] = in[sy * w + sx];
    }
  __syncthreads();
  if (x >= w || y >= h) return;
  int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  int gx = tile[ty - 1][tx + 1] + 2 * tile[ty][tx + 1] + tile[ty + 1][tx + 1] - tile[ty - 1][tx - 1] - 2 * tile[ty][tx - 1] - tile[ty + 1][tx - 1];
  int gy = tile[ty + 1][tx - 1] + 2 * tile[ty + 1][tx] + tile[ty + 1][tx + 1] - tile[ty - 1][tx - 1] - 2 * tile[ty - 1][tx] - tile[ty - 1][tx + 1];
  out[y * w + x] = min(255, (int)sqrtf((float)(gx * gx + gy * gy)));
}

extern "C" __global__ void mandelbrot(int *out, int width, int height, int limit) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  double cr = -2.0 + 3.0 * x / width, ci = -1.0 + 2.0 * y / height, r = 0, i = 0;
  int n = 0;
  while (n < limit) {
    double rr = __dmul_rn(r, r), ii = __dmul_rn(i, i);
    if (__dadd_rn(rr, ii) > 4.0) break;
    i = __dadd_rn(__dmul_rn(2.0 * r, i), ci);
    r = __dadd_rn(__dsub_rn(rr, ii), cr);
    n++;
  }
  out[y * width + x] = n;
}

// Suppression of boxes that overlap better ones.
extern "C" __global__ void nms(const float4 *boxes, unsigned long long *mask, int n, float threshold) {
  int row = blockIdx.y, col = blockIdx.x, t = threadIdx.x, i = row * 64 + t;
  __shared__ float4 s[64];
  if (col * 64 + t < n) s[t] = boxes[col * 64 + t];
  __syncthreads();
  if (i >= n) return;
  float4 a = boxes[i];
  unsigned long long bits = 0;
  for (int j = 0; j < 64 && col * 64 + j < n; j++) {
    if (col * 64 + j <= i) continue;
    float4 b = s[j];
    float w = fmaxf(fminf(a.z, b.z) - fmaxf(a.x, b.x), 0), h = fmaxf(fminf(a.w, b.w) - fmaxf(a.y, b.y), 0), both = w * h;
    if (both / ((a.z - a.x) * (a.w - a.y) + (b.z - b.x) * (b.w - b.y) - both) > threshold) bits |= 1ull << j;
  }
  mask[i * gridDim.x + col] = bits;
}
