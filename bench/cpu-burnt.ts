/** How much CPU waiting costs: a program that awaits long GPU work should sleep through it. */

import type { Device } from 'cuda-streams'
import type { Kernels } from './empty-kernel.js'

export interface CpuBurnt {
  readonly seconds: number
  /** Of one core, all threads of this process together. */
  readonly percent: number
}

// Short kernels, for a GPU that also drives a display stops a long one.
const KERNELS = 50
const KERNEL_NS = 100e6

/** Awaits 5 s of GPU work. */
export async function cpuBurnt(device: Device, kernels: Kernels): Promise<CpuBurnt> {
  const stream = device.createStream()
  for (let i = 0; i < KERNELS; i++) kernels.spin(stream.handle, KERNEL_NS)
  const start = process.hrtime.bigint()
  const before = process.cpuUsage()
  await stream.finished()
  const { user, system } = process.cpuUsage(before)
  const elapsedUs = Number(process.hrtime.bigint() - start) / 1000
  stream.close()
  return { seconds: elapsedUs / 1e6, percent: (100 * (user + system)) / elapsedUs }
}
