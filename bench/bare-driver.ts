/** Kernels whose own cost is known and small; and, straight through libcuda, what another library does with streams. */

import koffi from 'koffi'

/** `spin` keeps one thread busy for the given nanoseconds. */
export const ptx = `.version 7.0
.target sm_52
.address_size 64
.visible .entry empty() { ret; }
.visible .entry four(.param .u64 a, .param .u64 b, .param .f32 c, .param .u32 d) { ret; }
.visible .entry spin(.param .u64 duration) {
  .reg .pred %more;
  .reg .u64 %start, %now, %limit;
  ld.param.u64 %limit, [duration];
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %more, %now, %limit;
  @%more bra again;
  ret;
}
`

export interface BareDriver {
  /** Where libcuda was found. */
  readonly libcuda: string
  /** As the driver has it: 13000 for CUDA 13.0. */
  readonly cudaVersion: number
  /** A stream that cuda-streams knows nothing of. */
  createForeignStream(): bigint
  /** Holds the stream until the result is called. One stream at a time. */
  hold(streamHandle: bigint): () => void
}

const NON_BLOCKING = 1
const PORTABLE_AND_MAPPED = 3
const candidates = [
  'libcuda.so.1',
  '/usr/local/nvidia/lib64/libcuda.so.1',
  '/usr/lib/wsl/lib/libcuda.so.1',
  'libcuda.so',
] as const

/** Device 0's primary context becomes current on this thread. */
export function openBareDriver(): BareDriver {
  const { path, library } = loadLibcuda()
  const declare = (symbol: string, args: readonly string[]): ((...values: unknown[]) => void) => {
    const call = library.func(symbol, 'int', [...args])
    return (...values) => check(symbol, call(...values))
  }
  // One slot for whatever a call hands back. It is allocated natively, so it stays where it is.
  const slot: bigint = koffi.alloc('uint64_t', 1)
  const out = (): number => Number(koffi.decode(slot, 'uint64_t'))

  koffi.encode(slot, 'uint64_t', 0)
  declare('cuInit', ['uint32_t'])(0)
  declare('cuDriverGetVersion', ['uintptr_t'])(slot)
  const cudaVersion = out()
  declare('cuDevicePrimaryCtxRetain', ['uintptr_t', 'int'])(slot, 0)
  declare('cuCtxSetCurrent', ['uintptr_t'])(out())
  const createStream = declare('cuStreamCreateWithPriority', ['uintptr_t', 'uint32_t', 'int'])

  const waitValue = declare('cuStreamWaitValue32_v2', ['uintptr_t', 'uintptr_t', 'uint32_t', 'uint32_t'])
  declare('cuMemHostAlloc', ['uintptr_t', 'size_t', 'uint32_t'])(slot, 4, PORTABLE_AND_MAPPED)
  const word = BigInt(out())
  let turn = 0
  koffi.encode(word, 'uint32_t', turn)

  return {
    libcuda: path,
    cudaVersion,
    createForeignStream() {
      createStream(slot, NON_BLOCKING, 0)
      return BigInt(out())
    },
    hold(streamHandle) {
      turn += 1
      waitValue(Number(streamHandle), word, turn, 0)
      return () => koffi.encode(word, 'uint32_t', turn)
    },
  }
}

function loadLibcuda(): { path: string; library: ReturnType<typeof koffi.load> } {
  const tried: string[] = []
  for (const path of candidates) {
    try {
      return { path, library: koffi.load(path) }
    } catch {
      tried.push(path)
    }
  }
  throw new Error(`libcuda not found; tried ${tried.join(', ')}`)
}

function check(call: string, result: unknown): void {
  if (result !== 0) throw new Error(`${call} gave CUresult ${result}`)
}
