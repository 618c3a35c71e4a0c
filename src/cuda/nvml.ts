/** The figures that NVIDIA's management library has of a GPU: how busy, full and warm it is, and who uses it. */
import { VARIABLES } from '../foundation/base/environment-variables.js'
import { LibraryError } from '../foundation/base/errors.js'
import type { DeviceProcess, DeviceUsage } from '../foundation/driver/device-driver.js'
import type { CFunction } from '../foundation/native/c-functions.js'
import { NativeMemory } from '../foundation/native/native-memory.js'
import { loadLibrary } from '../foundation/native/shared-library.js'
import { ThreadMemory } from '../foundation/native/thread-memory.js'

/** The functions of nvml.h, with their parameters as it writes them. */
export const NVML_SIGNATURES = {
  nvmlInit_v2: 'void',
  nvmlDeviceGetHandleByPciBusId_v2: 'const char *pciBusId, nvmlDevice_t *device',
  nvmlDeviceGetUtilizationRates: 'nvmlDevice_t device, nvmlUtilization_t *utilization',
  nvmlDeviceGetMemoryInfo: 'nvmlDevice_t device, nvmlMemory_t *memory',
  nvmlDeviceGetComputeRunningProcesses_v3: 'nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos',
  nvmlDeviceGetTemperature: 'nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned int *temp',
  nvmlDeviceGetPowerUsage: 'nvmlDevice_t device, unsigned int *power',
  nvmlDeviceGetEnforcedPowerLimit: 'nvmlDevice_t device, unsigned int *limit',
  nvmlDeviceGetClockInfo: 'nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock',
} as const satisfies Readonly<Record<string, string>>

type NvmlFunction = keyof typeof NVML_SIGNATURES

/** nvmlReturn_t, as far as a message names it. */
const NVML_RESULTS: Readonly<Record<number, string>> = {
  1: 'NVML_ERROR_UNINITIALIZED',
  2: 'NVML_ERROR_INVALID_ARGUMENT',
  3: 'NVML_ERROR_NOT_SUPPORTED',
  4: 'NVML_ERROR_NO_PERMISSION',
  6: 'NVML_ERROR_NOT_FOUND',
  7: 'NVML_ERROR_INSUFFICIENT_SIZE',
  9: 'NVML_ERROR_DRIVER_NOT_LOADED',
  15: 'NVML_ERROR_GPU_IS_LOST',
  18: 'NVML_ERROR_LIB_RM_VERSION_MISMATCH',
  999: 'NVML_ERROR_UNKNOWN',
}
const NOT_SUPPORTED = 3
const NO_PERMISSION = 4
const INSUFFICIENT_SIZE = 7
/** NVML_TEMPERATURE_GPU, NVML_CLOCK_SM. */
const TEMPERATURE_OF_GPU = 0
const CLOCK_OF_MULTIPROCESSORS = 1
/** sizeof(nvmlProcessInfo_t): the process, its bytes, and the instances of a divided GPU. */
const PROCESS_BYTES = 24
/** NVML_VALUE_NOT_AVAILABLE */
const NOT_AVAILABLE = 2n ** 64n - 1n
const FEW_PROCESSES = 64
const OUT_BYTES = 64

/** The library, which is loaded and initialized where this is made, for each thread, and stays so: nothing of it is the thread's. */
export class Nvml {
  readonly #functions: Readonly<Record<NvmlFunction, CFunction>> = loadLibrary(VARIABLES.nvml).functions(
    NVML_SIGNATURES,
  )
  readonly #out = new ThreadMemory(OUT_BYTES)

  constructor() {
    this.#must('nvmlInit_v2')
  }

  /** Throws LibraryError where a figure that each GPU has is refused. */
  usage(pciBusId: string): DeviceUsage {
    const { address, uint32, uint64 } = this.#out
    const device = this.#device(pciBusId)
    this.#must('nvmlDeviceGetMemoryInfo', device, address)
    const [total = 0, free = 0, used = 0] = [...uint64.subarray(0, 3)].map(Number)
    const figure = (name: NvmlFunction, ...args: readonly number[]): number | undefined =>
      this.#has(name, device, ...args, address) ? uint32[0] : undefined
    const isSampled = this.#has('nvmlDeviceGetUtilizationRates', device, address)
    const [utilization, memoryUtilization] = isSampled ? [uint32[0], uint32[1]] : []
    const milliwatts = figure('nvmlDeviceGetPowerUsage')
    const mostMilliwatts = figure('nvmlDeviceGetEnforcedPowerLimit')
    return {
      utilization,
      memoryUtilization,
      memory: { total, free, used },
      processes: this.#processes(device),
      temperature: figure('nvmlDeviceGetTemperature', TEMPERATURE_OF_GPU),
      power: milliwatts === undefined ? undefined : milliwatts / 1000,
      powerLimit: mostMilliwatts === undefined ? undefined : mostMilliwatts / 1000,
      clock: figure('nvmlDeviceGetClockInfo', CLOCK_OF_MULTIPROCESSORS),
    }
  }

  #device(pciBusId: string): number {
    const text = NativeMemory.ofText(pciBusId)
    try {
      this.#must('nvmlDeviceGetHandleByPciBusId_v2', text.address, this.#out.address)
    } finally {
      text.free()
    }
    return this.#out.pointerAt(0)
  }

  #processes(device: number): readonly DeviceProcess[] {
    const { address, uint32 } = this.#out
    for (let most = FEW_PROCESSES; ; most = 2 * Math.max(most, uint32[0] ?? 0)) {
      const infos = new NativeMemory(most * PROCESS_BYTES)
      try {
        uint32[0] = most
        const result = this.#functions.nvmlDeviceGetComputeRunningProcesses_v3(device, address, infos.address)
        if (result === INSUFFICIENT_SIZE) continue
        if (result === NOT_SUPPORTED || result === NO_PERMISSION) return []
        if (result !== 0) throw refused('nvmlDeviceGetComputeRunningProcesses_v3', result)
        return Array.from({ length: uint32[0] ?? 0 }, (_, index) => {
          const at = (index * PROCESS_BYTES) / 8
          const bytes = infos.uint64[at + 1] ?? NOT_AVAILABLE
          return { pid: infos.uint32[2 * at] ?? 0, usedBytes: bytes === NOT_AVAILABLE ? undefined : Number(bytes) }
        })
      } finally {
        infos.free()
      }
    }
  }

  /** Calls a function for a figure that not every GPU has, or tells every user. */
  #has(name: NvmlFunction, ...args: readonly number[]): boolean {
    const result = this.#functions[name](...args)
    if (result === 0) return true
    if (result === NOT_SUPPORTED || result === NO_PERMISSION) return false
    throw refused(name, result)
  }

  #must(name: NvmlFunction, ...args: readonly number[]): void {
    const result = this.#functions[name](...args)
    if (result !== 0) throw refused(name, result)
  }
}

const refused = (name: string, result: number): LibraryError =>
  new LibraryError(name.replace(/_v\d$/, ''), result, NVML_RESULTS[result] ?? `NVML result ${result}`)
