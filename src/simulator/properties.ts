/**
 * The properties of the simulated device. Its attributes are the answers of an H200 (driver 580.159.04), so that a program finds the GPU that it is
 * meant for.
 */
import { DEVICE_ATTRIBUTES as A } from '../foundation/driver/device-attributes.js'
import { multiprocessorGroups } from '../foundation/driver/multiprocessor-groups.js'

export const SIMULATED_NAME = 'Simulated GPU'
/** The multiprocessors of each device. */
export const MULTIPROCESSORS = 132
export const SIMULATED_PRIORITIES = { least: 0, greatest: -5 } as const

export function simulatedUuid(device: number): string {
  return `GPU-00000000-0000-4000-8000-${device.toString(16).padStart(12, '0')}`
}

/** The PCI bus id, in agreement with the attributes, with a bus for each device. */
export function simulatedPciBusId(device: number): string {
  const digits = (attribute: number, count: number): string =>
    (simulatedAttribute(attribute, device) ?? 0).toString(16).padStart(count, '0')
  return `${digits(A.pciDomainId, 4)}:${digits(A.pciBusId, 2)}:${digits(A.pciDeviceId, 2)}.0`
}

/** The smallest group of multiprocessors that a device is split into, for compute capability 9.0. */
const GROUP = 8
/** The most groups of eight: an H200 gives one less than it has multiprocessors for. */
const MOST_SMALL_GROUPS = 15

/** The multiprocessors of each part and of the rest; undefined if there are not enough. */
export function simulatedSplit(wanted: readonly number[]): readonly number[] | undefined {
  const { size, counts } = multiprocessorGroups(wanted, GROUP, GROUP)
  const needed = counts.reduce((sum, count) => sum + count, 0)
  const rest = MULTIPROCESSORS - size * needed
  if (rest <= 0 || (size === GROUP && needed > MOST_SMALL_GROUPS)) return undefined
  return [...counts.map((count) => count * size), rest]
}

/** The values of the attributes that are not 0. */
const NOT_ZERO: Readonly<Record<number, number>> = {
  [A.maxThreadsPerBlock]: 1024,
  [A.maxBlockDimX]: 1024,
  [A.maxBlockDimY]: 1024,
  [A.maxBlockDimZ]: 64,
  [A.maxGridDimX]: 2147483647,
  [A.maxGridDimY]: 65535,
  [A.maxGridDimZ]: 65535,
  [A.maxSharedMemoryPerBlock]: 49152,
  [A.totalConstantMemory]: 65536,
  [A.warpSize]: 32,
  [A.maxPitch]: 2147483647,
  [A.maxRegistersPerBlock]: 65536,
  [A.clockRate]: 1980000,
  [A.textureAlignment]: 512,
  [A.gpuOverlap]: 1,
  [A.multiprocessorCount]: MULTIPROCESSORS,
  [A.canMapHostMemory]: 1,
  [A.maximumTexture1dWidth]: 131072,
  [A.maximumTexture2dWidth]: 131072,
  [A.maximumTexture2dHeight]: 65536,
  [A.maximumTexture3dWidth]: 16384,
  [A.maximumTexture3dHeight]: 16384,
  [A.maximumTexture3dDepth]: 16384,
  [A.maximumTexture2dLayeredWidth]: 32768,
  [A.maximumTexture2dLayeredHeight]: 32768,
  [A.maximumTexture2dLayeredLayers]: 2048,
  [A.surfaceAlignment]: 512,
  [A.concurrentKernels]: 1,
  [A.eccEnabled]: 1,
  [A.pciDeviceId]: 6,
  [A.memoryClockRate]: 3201000,
  [A.globalMemoryBusWidth]: 6016,
  [A.l2CacheSize]: 62914560,
  [A.maxThreadsPerMultiprocessor]: 2048,
  [A.asyncEngineCount]: 3,
  [A.unifiedAddressing]: 1,
  [A.maximumTexture1dLayeredWidth]: 32768,
  [A.maximumTexture1dLayeredLayers]: 2048,
  [A.canTex2dGather]: 1,
  [A.maximumTexture2dGatherWidth]: 32768,
  [A.maximumTexture2dGatherHeight]: 32768,
  [A.maximumTexture3dWidthAlternate]: 8192,
  [A.maximumTexture3dHeightAlternate]: 8192,
  [A.maximumTexture3dDepthAlternate]: 32768,
  [A.texturePitchAlignment]: 32,
  [A.maximumTexturecubemapWidth]: 32768,
  [A.maximumTexturecubemapLayeredWidth]: 32768,
  [A.maximumTexturecubemapLayeredLayers]: 2046,
  [A.maximumSurface1dWidth]: 32768,
  [A.maximumSurface2dWidth]: 131072,
  [A.maximumSurface2dHeight]: 65536,
  [A.maximumSurface3dWidth]: 16384,
  [A.maximumSurface3dHeight]: 16384,
  [A.maximumSurface3dDepth]: 16384,
  [A.maximumSurface1dLayeredWidth]: 32768,
  [A.maximumSurface1dLayeredLayers]: 2048,
  [A.maximumSurface2dLayeredWidth]: 32768,
  [A.maximumSurface2dLayeredHeight]: 32768,
  [A.maximumSurface2dLayeredLayers]: 2048,
  [A.maximumSurfacecubemapWidth]: 32768,
  [A.maximumSurfacecubemapLayeredWidth]: 32768,
  [A.maximumSurfacecubemapLayeredLayers]: 2046,
  [A.maximumTexture1dLinearWidth]: 268435456,
  [A.maximumTexture2dLinearWidth]: 131072,
  [A.maximumTexture2dLinearHeight]: 65000,
  [A.maximumTexture2dLinearPitch]: 2097120,
  [A.maximumTexture2dMipmappedWidth]: 32768,
  [A.maximumTexture2dMipmappedHeight]: 32768,
  [A.computeCapabilityMajor]: 9,
  [A.maximumTexture1dMipmappedWidth]: 32768,
  [A.streamPrioritiesSupported]: 1,
  [A.globalL1CacheSupported]: 1,
  [A.localL1CacheSupported]: 1,
  [A.maxSharedMemoryPerMultiprocessor]: 233472,
  [A.maxRegistersPerMultiprocessor]: 65536,
  [A.managedMemory]: 1,
  [A.singleToDoublePrecisionPerfRatio]: 2,
  [A.concurrentManagedAccess]: 1,
  [A.computePreemptionSupported]: 1,
  [A.canUseHostPointerForRegisteredMem]: 1,
  [A.cooperativeLaunch]: 1,
  [A.cooperativeMultiDeviceLaunch]: 1,
  [A.maxSharedMemoryPerBlockOptin]: 232448,
  [A.hostRegisterSupported]: 1,
  [A.virtualAddressManagementSupported]: 1,
  [A.handleTypePosixFileDescriptorSupported]: 1,
  [A.maxBlocksPerMultiprocessor]: 32,
  [A.genericCompressionSupported]: 1,
  [A.maxPersistingL2CacheSize]: 39321600,
  [A.maxAccessPolicyWindowSize]: 134217728,
  [A.gpuDirectRdmaWithCudaVmmSupported]: 1,
  [A.reservedSharedMemoryPerBlock]: 1024,
  [A.sparseCudaArraySupported]: 1,
  [A.readOnlyHostRegisterSupported]: 1,
  [A.timelineSemaphoreInteropSupported]: 1,
  [A.memoryPoolsSupported]: 1,
  [A.gpuDirectRdmaSupported]: 1,
  [A.gpuDirectRdmaFlushWritesOptions]: 1,
  [A.gpuDirectRdmaWritesOrdering]: 100,
  [A.mempoolSupportedHandleTypes]: 9,
  [A.clusterLaunch]: 1,
  [A.deferredMappingCudaArraySupported]: 1,
  [A.canUse64BitStreamMemOps]: 1,
  [A.canUseStreamWaitValueNor]: 1,
  [A.dmaBufSupported]: 1,
  [A.ipcEventSupported]: 1,
  [A.memSyncDomainCount]: 4,
  [A.tensorMapAccessSupported]: 1,
  [A.handleTypeFabricSupported]: 1,
  [A.unifiedFunctionPointers]: 1,
  [A.numaId]: -1,
  [A.gpuPciDeviceId]: 590680286,
  [A.gpuPciSubsystemId]: 415174878,
  [A.hostNumaVirtualMemoryManagementSupported]: 1,
  [A.hostNumaMemoryPoolsSupported]: 1,
  [A.hostMemoryPoolsSupported]: 1,
  [A.hostVirtualMemoryManagementSupported]: 1,
}

const known = new Set<number>(Object.values(A))

/** The highest number of an attribute that the H200's driver, of CUDA 13.0, accepted. */
const NEWEST_ATTRIBUTE = 147

/** The value of an attribute; undefined for one that is refused. */
export function simulatedAttribute(attribute: number, device = 0): number | undefined {
  if (attribute === A.pciBusId) return device
  return attribute > NEWEST_ATTRIBUTE ? undefined : (NOT_ZERO[attribute] ?? (known.has(attribute) ? 0 : undefined))
}
