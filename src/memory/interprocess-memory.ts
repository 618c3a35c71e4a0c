/**
 * The bytes by which another process opens device memory: CUDA's 64 for the whole allocation, then the place of the memory
 * in it, byteOffset and byteLength as little-endian u64. CUDA's bytes alone stand for the whole allocation.
 */

import { checkBytes, type OwnBytes } from '../base/bytes.js'
import { stateError } from '../base/errors.js'
import { contextOf, type Device, driverOf } from '../device.js'
import { type Allocation, ImportedAllocation } from './allocations.js'

const CUDA_BYTES = 64
const ALL_BYTES = 80

export function exportMemory(allocation: Allocation, byteOffset: number, byteLength: number): OwnBytes {
  const { driver, pointer, device } = allocation
  const exported = driver.sharing.exportMemory(pointer, contextOf(device))
  const bytes = new Uint8Array(ALL_BYTES)
  bytes.set(exported.handle)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(CUDA_BYTES, BigInt(exported.byteOffset + byteOffset), true)
  view.setBigUint64(CUDA_BYTES + 8, BigInt(byteLength), true)
  return bytes
}

export function importMemory(bytes: Uint8Array, device: Device): ImportedAllocation {
  const imported = driverOf(device).sharing.importMemory(bytes.slice(0, CUDA_BYTES), contextOf(device))
  if (bytes.length === CUDA_BYTES) return new ImportedAllocation(device, imported, 0, imported.byteLength)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const byteOffset = Number(view.getBigUint64(CUDA_BYTES, true))
  const byteLength = Number(view.getBigUint64(CUDA_BYTES + 8, true))
  if (byteOffset + byteLength <= imported.byteLength) {
    return new ImportedAllocation(device, imported, byteOffset, byteLength)
  }
  imported.close([])
  const what = `These bytes name ${byteLength} bytes from ${byteOffset} on, and the memory has ${imported.byteLength}`
  throw stateError('ERR_INVALID_HANDLE', `${what}: pass on the bytes that ipcHandle() returned as they are`)
}

export const checkIpcBytes = (bytes: unknown): Uint8Array =>
  checkBytes(
    bytes,
    'bytes',
    [ALL_BYTES, CUDA_BYTES],
    `${ALL_BYTES} bytes from buffer.ipcHandle(), or ${CUDA_BYTES} from another library`,
  )
