/** The driver interface for devices and their contexts. */

import type { Cancel, Settle } from './event-driver.js'

import type { ContextHandle, EventHandle } from './handle-types.js'

/** A context whose kernels run on some multiprocessors of a device only. */
export interface GreenContextPart {
  /** `cuCtxFromGreenCtx` */
  readonly context: ContextHandle
  readonly multiprocessors: number
}

/** A process that uses a device. */
export interface DeviceProcess {
  /** The number of the process, as the machine counts them: in a container the process itself may have another. */
  readonly pid: number
  /** The bytes of the device's memory that it has; undefined if the driver does not tell. */
  readonly usedBytes: number | undefined
}

/** How busy, full and warm a device is. A figure that the device lacks, or does not tell this user, is undefined. */
export interface DeviceUsage {
  /** The percentage of the time in which a kernel ran, over the driver's last sample, of a sixth of a second to one. */
  readonly utilization: number | undefined
  /** The percentage of that time in which device memory was read or written. */
  readonly memoryUtilization: number | undefined
  /** The device's memory in bytes, in use by all processes and the driver. */
  readonly memory: { readonly total: number; readonly free: number; readonly used: number }
  /** The processes that compute on the device; none where the driver does not tell. */
  readonly processes: readonly DeviceProcess[]
  /** The temperature of the GPU, in degrees Celsius. */
  readonly temperature: number | undefined
  /** The power that the board draws, in watts. */
  readonly power: number | undefined
  /** The power at which it slows down, in watts. */
  readonly powerLimit: number | undefined
  /** The clock of the multiprocessors now, in MHz. */
  readonly clock: number | undefined
}

/** What the simulator knows of a fault. */
export interface FaultReason {
  readonly text: string
  /** What has faulted, such as "Kernel 'axpy'", if that is known. */
  readonly culprit: string | undefined
}

export interface DeviceDriver {
  /** `cuDeviceGetCount` */
  count(): number
  /** `cuDeviceGetName` */
  name(device: number): string
  /** `cuDeviceGetUuid`: 16 bytes as lower-case hexadecimal in the 8-4-4-4-12 form, with 'GPU-' before it. */
  uuid(device: number): string
  /** `cuDeviceGetPCIBusId`, as 'domain:bus:device.function' in lower-case hexadecimal digits. */
  pciBusId(device: number): string
  /** `cuDeviceGetAttribute`: `attribute` is a CUdevice_attribute. */
  attribute(device: number, attribute: number): number
  /** `cuDevicePrimaryCtxRetain`, at the first call. */
  context(device: number): ContextHandle
  /** `cuCtxGetStreamPriorityRange` */
  streamPriorityRange(device: number): { readonly least: number; readonly greatest: number }
  /** NVML's figures. Throws ERR_UNSUPPORTED where that library is not found. */
  usage(device: number): DeviceUsage
  /** `cuProfilerStart`, `cuProfilerStop` */
  profile(device: number, isOn: boolean): void
  /** `cuCtxSynchronize` */
  synchronize(device: number): void
  /**
   * `cuCtxRecordEvent`: settles when all that is queued on the device now is done. Throws where the driver refuses to look;
   * a capture there that this thread can know of is left as it was.
   */
  finished(device: number, settle: Settle): Cancel
  /**
   * `cuCtxRecordEvent`: records an internal event, made in the device's primary context, behind all work of the
   * device. False where a stream there captures, as far as this thread can know: nothing is done then.
   */
  recordInternal(event: EventHandle, device: number): boolean
  /** `cuEventQuery`: throws what a GPU that has faulted answers to every call, where that is known by now. */
  contextCheck(context: ContextHandle): void
  /**
   * What is known of the fault of a context beside its number, such as which thread of a kernel used which address. Undefined
   * without a fault, and on a GPU.
   */
  contextFault(context: ContextHandle): FaultReason | undefined
  /** `cuThreadExchangeStreamCaptureMode`: runs calls that would otherwise invalidate a capture of any thread. */
  relaxed<R>(calls: () => R): R
  /**
   * `cuDevSmResourceSplitByCount`, `cuDevResourceGenerateDesc`, `cuGreenCtxCreate`: green contexts of at least so many
   * multiprocessors each, and one of the rest, which comes last.
   */
  split(device: number, multiprocessors: readonly number[]): readonly GreenContextPart[]
  /** Called when no more streams will be made in the green context: a split may return it again once it has none. */
  greenContextDestroy(context: ContextHandle): void
}
