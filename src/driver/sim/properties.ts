/** What the simulated device says of itself. Its figures are an H200's, so that a program sees the GPU it is meant for. */
import { DEVICE_ATTRIBUTES } from '../device-attributes.js'

export const SIMULATED_NAME = 'Simulated GPU'
export const SIMULATED_PRIORITIES = { least: 0, greatest: -5 } as const

export function simulatedUuid(device: number): string {
  return `GPU-00000000-0000-4000-8000-${device.toString(16).padStart(12, '0')}`
}

const A = DEVICE_ATTRIBUTES

export const SIMULATED_ATTRIBUTES: Readonly<Record<number, number>> = {
  [A.maxThreadsPerBlock]: 1024,
  [A.maxBlockDimX]: 1024,
  [A.maxBlockDimY]: 1024,
  [A.maxBlockDimZ]: 64,
  [A.maxGridDimX]: 2147483647,
  [A.maxGridDimY]: 65535,
  [A.maxGridDimZ]: 65535,
  [A.maxSharedMemoryPerBlock]: 49152,
  [A.warpSize]: 32,
  [A.maxRegistersPerBlock]: 65536,
  [A.multiprocessorCount]: 132,
  [A.maxThreadsPerMultiprocessor]: 2048,
  [A.computeCapabilityMajor]: 9,
  [A.computeCapabilityMinor]: 0,
  [A.unifiedAddressing]: 1,
  [A.concurrentKernels]: 1,
  [A.asyncEngineCount]: 3,
  [A.streamPrioritiesSupported]: 1,
}
