/** The environment variables that have an effect on the library: its own, CUDA's and the system's. docs/reference/environment.md documents them. */
import { VARIABLES } from '../../foundation/base/environment-variables.js'

export const ALL_VARIABLES: readonly string[] = [
  ...Object.values(VARIABLES).map(({ name }) => name),
  'CUDA_VISIBLE_DEVICES',
  'CUDA_DEVICE_MAX_CONNECTIONS',
  'CUDA_LAUNCH_BLOCKING',
  'CUDA_INJECTION64_PATH',
  'CUDA_MPS_PIPE_DIRECTORY',
  'NVIDIA_VISIBLE_DEVICES',
  'NVIDIA_DRIVER_CAPABILITIES',
  'LD_LIBRARY_PATH',
  'SystemRoot',
  'CUDA_HOME',
  'CUDA_PATH',
  'VIRTUAL_ENV',
  'CONDA_PREFIX',
  'PYENV_ROOT',
  'PYTHONHOME',
  'XDG_CACHE_HOME',
]
