/** Which stream each async context has made current, and the default streams, which are current where none is. */
import { Ambient } from '../base/ambient.js'
import type { Device } from '../device.js'
import { type StreamBase, StreamCore, streamCoreOf } from './stream-core.js'

const currentStreams = new WeakMap<Device, Ambient<StreamBase>>()
const defaultCores = new WeakMap<Device, { readonly legacy: StreamCore; readonly perThread: StreamCore }>()

/** The stream that is current on a device. */
export function currentOn(device: Device): Ambient<StreamBase> {
  let ambient = currentStreams.get(device)
  if (ambient === undefined) {
    ambient = new Ambient()
    currentStreams.set(device, ambient)
  }
  return ambient
}

export function currentCore(device: Device): StreamCore {
  return streamCoreOf(currentStreams.get(device)?.get()) ?? defaultCoresOf(device).legacy
}

/** The default streams of a device: always the same. */
export function defaultCoresOf(device: Device): { readonly legacy: StreamCore; readonly perThread: StreamCore } {
  let cores = defaultCores.get(device)
  if (cores === undefined) {
    cores = { legacy: StreamCore.ofDefault(device, 0), perThread: StreamCore.ofDefault(device, 2) }
    defaultCores.set(device, cores)
  }
  return cores
}
