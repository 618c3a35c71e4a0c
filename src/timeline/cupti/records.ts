/**
 * The records of CUPTI: what the GPU did, and the calls that queued it. The offsets are those of CUpti_ActivityKernel9 to
 * 13, CUpti_ActivityMemcpy5 to 7, CUpti_ActivityMemcpyPtoP4, CUpti_ActivityMemset4 and 5, and CUpti_ActivityAPI: newer
 * ones add fields at their ends.
 */
import { koffi, NativeMemory } from '../../driver/cuda/libcuda/native.js'
import { KIND_NAMES, RowKind } from '../kinds.js'
import { ActivityKind, type CuptiLibrary } from './library.js'
import type { RecordBuffer } from './record-buffers.js'

/** What a GPU did. Times are nanoseconds of CUPTI's clock since the origin; NaN where it was not over. */
export interface Activity {
  readonly kind: RowKind
  readonly name: string
  /** NaN for a kernel. */
  readonly bytes: number
  readonly device: number
  /** CUPTI's number, which is not the driver's. */
  readonly stream: number
  readonly start: number
  readonly end: number
  /** Of the call that queued it. */
  readonly correlation: number
}

/** A call of CUDA's driver or runtime. */
export interface ApiCall {
  readonly start: number
  readonly end: number
  /** The lower half of pthread_self(). */
  readonly thread: number
}

interface Layout {
  readonly kind: RowKind
  readonly device: number
  readonly stream: number
  readonly correlation: number
}

const P = 'uintptr_t'
const START = 16
const END = 24
/** Of a copy and a fill. */
const BYTES = 8
const KERNEL_NAME = 104
const LAYOUTS: Readonly<Record<number, Layout>> = {
  [ActivityKind.CONCURRENT_KERNEL]: { kind: RowKind.KERNEL, device: 40, stream: 48, correlation: 92 },
  [ActivityKind.MEMCPY]: { kind: RowKind.COPY, device: 32, stream: 40, correlation: 44 },
  [ActivityKind.MEMCPY2]: { kind: RowKind.COPY, device: 32, stream: 40, correlation: 60 },
  [ActivityKind.MEMSET]: { kind: RowKind.FILL, device: 32, stream: 40, correlation: 44 },
}
const Api = { START: 8, END: 16, THREAD: 28, CORRELATION: 32 } as const

export class Records {
  readonly activities: Activity[] = []
  readonly calls = new Map<number, ApiCall>()
  readonly #next = new NativeMemory(8)
  readonly #names = new Map<bigint, string>()
  readonly #originHigh: number
  readonly #originLow: number

  /** `origin` is in CUPTI's nanoseconds, which no double holds. */
  constructor(
    private readonly library: CuptiLibrary,
    origin: bigint,
  ) {
    this.#originHigh = Number(origin >> 32n)
    this.#originLow = Number(origin & 0xffff_ffffn)
  }

  read({ address, length }: RecordBuffer): void {
    if (length === 0) return
    const view = new DataView(koffi().view(BigInt(address), length))
    this.#next.uint64[0] = 0n
    while (this.library.cuptiActivityGetNextRecord(address, length, this.#next.address) === 0) {
      this.#readOne(view, this.#next.pointerAt(0) - address)
    }
  }

  /** Lets go of its memory. */
  close(): void {
    this.#next.free()
  }

  #readOne(view: DataView, at: number): void {
    const kind = view.getUint32(at, true)
    const layout = LAYOUTS[kind]
    if (layout !== undefined) {
      const isKernel = layout.kind === RowKind.KERNEL
      this.activities.push({
        kind: layout.kind,
        name: isKernel ? this.#nameAt(view.getBigUint64(at + KERNEL_NAME, true)) : (KIND_NAMES[layout.kind] ?? ''),
        bytes: isKernel ? Number.NaN : Number(view.getBigUint64(at + BYTES, true)),
        device: view.getUint32(at + layout.device, true),
        stream: view.getUint32(at + layout.stream, true),
        start: this.#timeAt(view, at + START),
        end: this.#timeAt(view, at + END),
        correlation: view.getUint32(at + layout.correlation, true),
      })
    } else if (kind === ActivityKind.DRIVER || kind === ActivityKind.RUNTIME) {
      const correlation = view.getUint32(at + Api.CORRELATION, true)
      const start = this.#timeAt(view, at + Api.START)
      const end = this.#timeAt(view, at + Api.END)
      this.calls.set(correlation, { start, end, thread: view.getUint32(at + Api.THREAD, true) })
    }
  }

  #timeAt(view: DataView, at: number): number {
    const [low, high] = [view.getUint32(at, true), view.getUint32(at + 4, true)]
    if (low === 0 && high === 0) return Number.NaN
    return (high - this.#originHigh) * 2 ** 32 + (low - this.#originLow)
  }

  #nameAt(address: bigint): string {
    let name = this.#names.get(address)
    if (name === undefined) {
      name = address === 0n ? 'kernel' : demangled(koffi().decode(address, 'char', -1))
      this.#names.set(address, name)
    }
    return name
  }
}

let demangle: ((name: string, into: number, length: number, status: number) => number) | undefined

/** As C++ has it. A library in C++ has brought the function for it; otherwise the name stays as it is. */
function demangled(name: string): string {
  if (!name.startsWith('_Z')) return name
  const libc = koffi().load(null)
  try {
    demangle ??= libc.func('__cxa_demangle', P, ['str', P, P, P])
  } catch {
    return name
  }
  const address = demangle(name, 0, 0, 0)
  if (address === 0) return name
  const text: string = koffi().decode(BigInt(address), 'char', -1)
  koffi().free(BigInt(address))
  return text
}
