#pragma once
constexpr int WARP_SIZE = 32;
constexpr int warps_of(int threads) { return (threads + WARP_SIZE - 1) / WARP_SIZE; }

template <class T> __device__ __forceinline__ T warpReduceSum(T value) {
  for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFF, value, offset);
  return value;
}
