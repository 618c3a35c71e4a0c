/** The devices of the simulation, and their contexts. */

import { process } from '../foundation/base/node-modules.js'
import { CUresult, cudaError } from '../foundation/driver/cuda-results.js'
import { SPLITTING } from '../foundation/driver/deadlocks.js'
import { DEVICE_ATTRIBUTES as A } from '../foundation/driver/device-attributes.js'
import type { DeviceDriver, DeviceUsage, FaultReason, GreenContextPart } from '../foundation/driver/device-driver.js'
import type { Cancel, Settle } from '../foundation/driver/event-driver.js'
import type { ContextHandle, EventHandle } from '../foundation/driver/handle-types.js'
import type { CaptureRules } from './capture-rules.js'
import type { ComputeCapability } from './compute-capability.js'
import type { HostWaits } from './machine/host-waits.js'
import type { Machine } from './machine/machine.js'
import {
  SIMULATED_NAME,
  SIMULATED_PRIORITIES,
  simulatedAttribute,
  simulatedPciBusId,
  simulatedSplit,
  simulatedUuid,
} from './properties.js'
import type { Registry } from './registry.js'
import type { SimQueue } from './sim-queue.js'

export class SimDevices implements DeviceDriver {
  constructor(
    private readonly machine: Machine,
    private readonly registry: Registry,
    private readonly captures: CaptureRules,
    private readonly waits: HostWaits,
    private readonly queue: SimQueue,
    private readonly computeCapability: ComputeCapability,
  ) {}

  count(): number {
    return this.registry.devices.length
  }

  name(): string {
    return SIMULATED_NAME
  }

  uuid(device: number): string {
    return simulatedUuid(device)
  }

  pciBusId(device: number): string {
    return simulatedPciBusId(device)
  }

  attribute(device: number, attribute: number): number {
    if (attribute === A.computeCapabilityMajor) return this.computeCapability.major
    if (attribute === A.computeCapabilityMinor) return this.computeCapability.minor
    const value = simulatedAttribute(attribute, device)
    if (value === undefined) throw cudaError('cuDeviceGetAttribute', CUresult.INVALID_VALUE)
    return value
  }

  context(device: number): ContextHandle {
    return this.registry.device(device).context
  }

  /** The memory is what the simulation counts. It has no sensors. */
  usage(device: number): DeviceUsage {
    const { free, total } = this.registry.device(device).pools
    const used = total - free
    return {
      utilization: undefined,
      memoryUtilization: undefined,
      memory: { total, free, used },
      processes: [{ pid: process.pid, usedBytes: used }],
      temperature: undefined,
      power: undefined,
      powerLimit: undefined,
      clock: undefined,
    }
  }

  /** No profiler of NVIDIA looks at the simulation. */
  profile(device: number): void {
    this.registry.device(device)
  }

  streamPriorityRange(): { readonly least: number; readonly greatest: number } {
    return SIMULATED_PRIORITIES
  }

  synchronize(device: number): void {
    const target = this.registry.entered(this.registry.device(device), 'cuCtxSynchronize')
    this.captures.refuseOnDevice(target, 'cuCtxSynchronize')
    this.waits.blockFor(this.queue.allWork(target), 'device.synchronize()')
    this.queue.waitedFor(target)
    this.registry.alive(target, 'cuCtxSynchronize')
  }

  finished(device: number, settle: Settle): Cancel {
    const target = this.registry.alive(this.registry.device(device), 'cuCtxRecordEvent')
    if (this.captures.activeOn(target)) throw cudaError('cuCtxRecordEvent', CUresult.STREAM_CAPTURE_UNSUPPORTED)
    return this.machine.notify(this.queue.allWork(target), settle)
  }

  recordInternal(handle: EventHandle, device: number): boolean {
    const target = this.registry.alive(this.registry.device(device), 'cuCtxRecordEvent')
    const event = this.registry.event(handle, 'cuCtxRecordEvent')
    if (this.captures.activeOn(target) || this.machine.others.capture) return false
    this.machine.recorded(event, this.queue.allWork(target))
    return true
  }

  contextCheck(context: ContextHandle): void {
    this.registry.alive(this.registry.contextDevice(context), 'cuEventQuery')
  }

  contextFault(context: ContextHandle): FaultReason | undefined {
    return this.registry.contextDevice(context).faultReason
  }

  relaxed<R>(calls: () => R): R {
    return calls()
  }

  split(ordinal: number, multiprocessors: readonly number[]): readonly GreenContextPart[] {
    const device = this.registry.entered(this.registry.device(ordinal), 'cuGreenCtxCreate')
    this.machine.scheduler.tick()
    this.waits.exclusively(SPLITTING)
    const parts = simulatedSplit(multiprocessors)
    if (parts === undefined) {
      throw cudaError('cuDevSmResourceSplitByCount', CUresult.INVALID_RESOURCE_CONFIGURATION)
    }
    return parts.map((count) => this.registry.addPartition(device, count))
  }

  greenContextDestroy(context: ContextHandle): void {
    const partition = this.registry.partition(context)
    if (partition !== undefined) this.registry.removePartition(partition)
  }
}
