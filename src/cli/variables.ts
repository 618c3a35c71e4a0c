/** The environment variables that have an effect on the library. docs/environment.md documents them. */
export const VARIABLES: readonly string[] = [
  'CUDA_STREAMS_DRIVER',
  'CUDA_STREAMS_SIM_DEVICES',
  'CUDA_STREAMS_SIM_SEED',
  'CUDA_STREAMS_SIM_MEMORY',
  'CUDA_STREAMS_RELEASE_THRESHOLD',
  'CUDA_STREAMS_ALLOCATION_SITES',
  'CUDA_STREAMS_DEADLOCK_TIMEOUT',
  'CUDA_STREAMS_WARN_AFTER',
  'CUDA_STREAMS_WATCHDOG',
  'CUDA_STREAMS_SYNC',
  'CUDA_STREAMS_SANITIZER',
  'CUDA_STREAMS_TIMELINE',
  'CUDA_STREAMS_TIMELINE_SITES',
  'CUDA_STREAMS_CUBLAS',
  'CUDA_STREAMS_NCCL',
  'CUDA_STREAMS_NVRTC',
  'CUDA_STREAMS_CUPTI',
  'CUDA_VISIBLE_DEVICES',
  'CUDA_DEVICE_MAX_CONNECTIONS',
  'CUDA_MPS_PIPE_DIRECTORY',
  'NVIDIA_VISIBLE_DEVICES',
  'NVIDIA_DRIVER_CAPABILITIES',
  'LD_LIBRARY_PATH',
  'SystemRoot',
  'CUDA_HOME',
  'CUDA_PATH',
  'VIRTUAL_ENV',
  'CONDA_PREFIX',
  'PATH',
  'HOME',
]

/** Does the name begin as one of the library's own, without being one? Then it is misspelt. The tests and examples use more variables. */
export const isUnknown = (name: string): boolean =>
  /^CUDA_STREAMS?_(?!TEST_|LIBPYTHON$)/.test(name) && !VARIABLES.includes(name)
