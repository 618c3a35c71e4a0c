// The kernels of the pipeline. kernels-ptx.ts has them as PTX, made by `node scripts/ptx-kernels.mjs pipeline`.

// One thread takes its time, as a decoder does.
__device__ void work(unsigned long long nanoseconds) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < nanoseconds);
}

extern "C" __global__ void decode(unsigned long long nanoseconds) { work(nanoseconds); }

extern "C" __global__ void negative(const unsigned char* in, unsigned char* out, int n, unsigned long long nanoseconds) {
  work(nanoseconds);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 255 - in[i];
}

extern "C" __global__ void encode(unsigned long long nanoseconds) { work(nanoseconds); }
