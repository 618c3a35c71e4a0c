// Sorting, searching and hashing.
extern "C" __global__ void bitonic(int *data) {
  __shared__ int s[512];
  int t = threadIdx.x;
  s[t] = data[t];
  s[t + 256] = data[t + 256];
  for (int size = 2; size <= 512; size <<= 1)
    for (int stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      int at = 2 * t - (t & (stride - 1)), up = (at & size) == 0;
      int a = s[at], b = s[at + stride];
      if ((a > b) == up) { s[at] = b; s[at + stride] = a; }
    }
  __syncthreads();
  data[t] = s[t];
  data[t + 256] = s[t + 256];
}

// One pass of a radix sort of 256 keys by one bit after the other.
extern "C" __global__ void radix(unsigned *data) {
  __shared__ unsigned keys[256], ones[256];
  int t = threadIdx.x;
  keys[t] = data[t];
  for (int bit = 0; bit < 32; bit++) {
    __syncthreads();
    unsigned key = keys[t], b = key >> bit & 1;
    ones[t] = b;
    for (int step = 1; step < 256; step <<= 1) {
      __syncthreads();
      unsigned v = t >= step ? ones[t - step] : 0;
      __syncthreads();
      ones[t] += v;
    }
    __syncthreads();
    unsigned total = ones[255], before = ones[t] - b;
    __syncthreads();
    keys[b ? 256 - total + before : t - before] = key;
  }
  __syncthreads();
  data[t] = keys[t];
}

extern "C" __global__ void merge_ranks(const int *a, const int *b, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 2 * n) return;
  const int *own = i < n ? a : b, *other = i < n ? b : a;
  int at = i < n ? i : i - n, key = own[at], low = 0, high = n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (other[middle] < key || (i >= n && other[middle] == key)) low = middle + 1;
    else high = middle;
  }
  out[at + low] = key;
}

#define ROTR(x, n) __funnelshift_r(x, x, n)
__constant__ unsigned K[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

extern "C" __global__ void sha256(const unsigned char *messages, unsigned *out, int length) {
  int i = threadIdx.x;
  unsigned w[64], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char block[64] = {0};
  for (int j = 0; j < length; j++) block[j] = messages[i * length + j];
  block[length] = 0x80;
  block[62] = length * 8 >> 8;
  block[63] = length * 8;
  for (int j = 0; j < 16; j++) w[j] = block[4 * j] << 24 | block[4 * j + 1] << 16 | block[4 * j + 2] << 8 | block[4 * j + 3];
  for (int j = 16; j < 64; j++) {
    unsigned a = ROTR(w[j - 15], 7) ^ ROTR(w[j - 15], 18) ^ w[j - 15] >> 3, b = ROTR(w[j - 2], 17) ^ ROTR(w[j - 2], 19) ^ w[j - 2] >> 10;
    w[j] = w[j - 16] + a + w[j - 7] + b;
  }
  unsigned a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], s = h[7];
  for (int j = 0; j < 64; j++) {
    unsigned t1 = s + (ROTR(e, 6) ^ ROTR(e, 11) ^ ROTR(e, 25)) + ((e & f) ^ (~e & g)) + K[j] + w[j];
    unsigned t2 = (ROTR(a, 2) ^ ROTR(a, 13) ^ ROTR(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    s = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
  }
  unsigned r[8] = {a, b, c, d, e, f, g, s};
  for (int j = 0; j < 8; j++) out[i * 8 + j] = h[j] + r[j];
}

extern "C" __global__ void crc32(const unsigned char *in, unsigned *out, int length) {
  unsigned c = ~0u;
  for (int i = 0; i < length; i++) {
    c ^= in[threadIdx.x * length + i];
    for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
  }
  out[threadIdx.x] = ~c;
}

extern "C" __global__ void hash_insert(const unsigned *keys, unsigned long long *table, int n, unsigned mask) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned key = keys[i], at = key * 2654435761u >> 7 & mask;
  unsigned long long want = (unsigned long long)key << 32 | (i + 1);
  while (true) {
    unsigned long long old = atomicCAS(&table[at], 0ull, want);
    if (old == 0 || old >> 32 == key) break;
    at = at + 1 & mask;
  }
}

extern "C" __global__ void mul128(const unsigned long long *a, const unsigned long long *b, unsigned long long *out) {
  int i = threadIdx.x;
  unsigned __int128 p = (unsigned __int128)a[i] * b[i] + b[i];
  out[2 * i] = (unsigned long long)p;
  out[2 * i + 1] = (unsigned long long)(p >> 64);
}

extern "C" __global__ void divisions(const long long *a, const long long *b, long long *out) {
  int i = threadIdx.x;
  out[6 * i] = a[i] / b[i];
  out[6 * i + 1] = a[i] % b[i];
  out[6 * i + 2] = (unsigned long long)a[i] / (unsigned long long)b[i];
  out[6 * i + 3] = (int)a[i] / ((int)b[i] | 1);
  out[6 * i + 4] = (unsigned)a[i] % ((unsigned)b[i] | 1);
  out[6 * i + 5] = a[i] / 1000003 + (unsigned)a[i] / 7u;
}
