// All pairs, by tiles of bodies in shared memory.
#include <helper_cuda.h>
#include <math.h>

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

template <class T>
struct vec3 { typedef float Type; };
template <>
struct vec3<float> { typedef float3 Type; };
template <>
struct vec3<double> { typedef double3 Type; };
template <class T>
struct vec4 { typedef float Type; };
template <>
struct vec4<float> { typedef float4 Type; };
template <>
struct vec4<double> { typedef double4 Type; };

__constant__ float softeningSquared;
__constant__ double softeningSquared_fp64;

cudaError_t setSofteningSquared(float softeningSq) {
  return cudaMemcpyToSymbol(softeningSquared, &softeningSq, sizeof(float), 0, cudaMemcpyHostToDevice);
}

template <typename T>
__device__ T getSofteningSquared() { return softeningSquared; }
template <>
__device__ double getSofteningSquared<double>() { return softeningSquared_fp64; }

template <typename T>
struct DeviceData {
  T *dPos[2];
  T *dVel;
  cudaEvent_t event;
  unsigned int offset;
  unsigned int numBodies;
};

template <typename T>
__device__ typename vec3<T>::Type interaction(typename vec3<T>::Type ai, typename vec4<T>::Type bi, typename vec4<T>::Type bj) {
  const T rx = bj.x - bi.x, ry = bj.y - bi.y, rz = bj.z - bi.z;
  const T distSqr = rx * rx + ry * ry + rz * rz + getSofteningSquared<T>();
  const T invDist = T(1) / sqrt(distSqr);
  const T s = bj.w * invDist * invDist * invDist;
  ai.x += rx * s;
  ai.y += ry * s;
  ai.z += rz * s;
  return ai;
}

template <typename T>
__global__ void integrateBodies(typename vec4<T>::Type *__restrict__ newPos, typename vec4<T>::Type *__restrict__ oldPos,
                                typename vec4<T>::Type *vel, unsigned int deviceOffset, unsigned int deviceNumBodies,
                                float deltaTime, float damping, int numTiles) {
  cg::thread_block cta = cg::this_thread_block();
  extern __shared__ char words[];
  typename vec4<T>::Type *sharedPos = (typename vec4<T>::Type *)words;
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  const bool inside = index < deviceNumBodies;
  typename vec4<T>::Type position = oldPos[deviceOffset + (inside ? index : 0)];
  typename vec3<T>::Type accel = {0, 0, 0};
  for (int tile = 0; tile < numTiles; tile++) {
    const int other = tile * blockDim.x + threadIdx.x;
    sharedPos[threadIdx.x] = other < deviceNumBodies ? oldPos[other] : typename vec4<T>::Type{0, 0, 0, 0};
    cg::sync(cta);
    for (unsigned int counter = 0; counter < blockDim.x; counter++) accel = interaction<T>(accel, position, sharedPos[counter]);
    cg::sync(cta);
  }
  if (!inside) return;
  typename vec4<T>::Type velocity = vel[deviceOffset + index];
  velocity.x = (velocity.x + accel.x * deltaTime) * damping;
  velocity.y = (velocity.y + accel.y * deltaTime) * damping;
  velocity.z = (velocity.z + accel.z * deltaTime) * damping;
  position.x += velocity.x * deltaTime;
  position.y += velocity.y * deltaTime;
  position.z += velocity.z * deltaTime;
  newPos[deviceOffset + index] = position;
  vel[deviceOffset + index] = velocity;
}

template <typename T>
void integrateNbodySystem(DeviceData<T> *deviceData, cudaGraphicsResource **pgres, unsigned int currentRead, float deltaTime,
                          float damping, unsigned int numBodies, unsigned int numDevices, int blockSize, bool bUsePBO) {
  for (unsigned int dev = 0; dev != numDevices; dev++) {
    if (numDevices > 1) cudaSetDevice(dev);
    int sharedMemSize = blockSize * 4 * sizeof(T);
    integrateBodies<T><<<1, blockSize, sharedMemSize>>>((typename vec4<T>::Type *)deviceData[dev].dPos[1 - currentRead],
                                                       nullptr, nullptr, 0, numBodies, deltaTime, damping, 1);
    getLastCudaError("Kernel execution failed");
  }
}

// Explicit specializations needed to generate code
template void integrateNbodySystem<float>(DeviceData<float> *deviceData, cudaGraphicsResource **pgres, unsigned int currentRead,
                                          float deltaTime, float damping, unsigned int numBodies, unsigned int numDevices,
                                          int blockSize, bool bUsePBO);
