/** Stands for another library that owns streams, as a decoder does: it shares nothing with ours but the GPU. */
import { createRequire } from 'node:module'
import type { Device } from 'cuda-streams'
import { foreignStream } from 'cuda-streams/sim'

/** A stream that cuda-streams did not make. Like most libraries, this one keeps it until the process ends. */
export function theirStream(device: Device): bigint {
  if (device.driver === 'sim') return foreignStream(device)
  // Only a GPU needs it: `npm install koffi`.
  const koffi: typeof import('koffi') = createRequire(import.meta.url)('koffi')
  const cuda = koffi.load('libcuda.so.1')
  const push = cuda.func('int cuCtxPushCurrent_v2(uintptr_t context)')
  const create = cuda.func('int cuStreamCreate(_Out_ uintptr_t *stream, unsigned int flags)')
  const pop = cuda.func('int cuCtxPopCurrent_v2(_Out_ uintptr_t *context)')
  const stream = [0]
  push(Number(device.context.handle))
  const result: unknown = create(stream, NON_BLOCKING)
  pop([0])
  if (result !== 0) throw new Error(`cuStreamCreate returned ${result}`)
  return BigInt(stream[0] ?? 0)
}

/** CU_STREAM_NON_BLOCKING */
const NON_BLOCKING = 1
