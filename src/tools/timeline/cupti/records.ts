/** The records of CUPTI: what the GPU did, and the calls that queued it. */
import { bindAll, type CFunction, declaration, own } from '../../../foundation/native/c-functions.js'
import { layer } from '../../../foundation/native/layer.js'
import { NativeMemory } from '../../../foundation/native/native-memory.js'
import { SharedLibrary } from '../../../foundation/native/shared-library.js'
import { EventKind, KIND_NAMES } from '../kinds.js'
import { ActivityKind, type CuptiLibrary } from './cupti-library.js'
import type { RecordBuffer } from './record-buffers.js'
import { ClockOrigin, spanAt } from './record-layouts.js'

/** An operation of a GPU. Times are nanoseconds of CUPTI's clock since the origin; NaN if it was not over. */
export interface Activity {
  readonly kind: EventKind
  readonly name: string
  /** The bytes that it moves; NaN for a kernel. */
  readonly bytes: number
  readonly device: number
  /** CUPTI's number of the stream, which is not the driver's. */
  readonly stream: number
  readonly start: number
  readonly end: number
  /** The number that the operation has in common with the call that queued it. */
  readonly correlation: number
}

/** A call of CUDA's driver or runtime. */
export interface ApiCall {
  readonly start: number
  readonly end: number
  /** The lower half of pthread_self() of the calling thread. */
  readonly thread: number
}

export class Records {
  readonly activities: Activity[] = []
  readonly calls = new Map<number, ApiCall>()
  readonly #next = new NativeMemory(8)
  readonly #names = new Map<bigint, string>()
  readonly #origin: ClockOrigin

  /** @param origin A time in CUPTI's nanoseconds */
  constructor(
    private readonly library: CuptiLibrary,
    origin: bigint,
  ) {
    this.#origin = new ClockOrigin(origin)
  }

  read({ address, length }: RecordBuffer): void {
    if (length === 0) return
    const view = new DataView(layer().view(address, length))
    this.#next.uint64[0] = 0n
    while (this.library.cuptiActivityGetNextRecord(address, length, this.#next.address) === 0) {
      this.#readOne(view, this.#next.pointerAt(0) - address)
    }
  }

  /** Frees the memory of the reader. */
  close(): void {
    this.#next.free()
  }

  #readOne(view: DataView, at: number): void {
    const span = spanAt(view, at, this.#origin)
    if (span === undefined) return
    const { start, end, correlation } = span
    const { device = 0, stream = 0, bytes, name, thread } = span.layout
    if (thread !== undefined) {
      this.calls.set(correlation, { start, end, thread: view.getUint32(at + thread, true) })
      return
    }
    const kind =
      span.kind === ActivityKind.MEMSET ? EventKind.FILL : name === undefined ? EventKind.COPY : EventKind.KERNEL
    this.activities.push({
      kind,
      name: name === undefined ? (KIND_NAMES[kind] ?? '') : this.#nameAt(view.getBigUint64(at + name, true)),
      bytes: bytes === undefined ? Number.NaN : Number(view.getBigUint64(at + bytes, true)),
      device: view.getUint32(at + device, true),
      stream: view.getUint32(at + stream, true),
      start,
      end,
      correlation,
    })
  }

  #nameAt(address: bigint): string {
    let name = this.#names.get(address)
    if (name === undefined) {
      name = address === 0n ? 'kernel' : demangled(layer().text(Number(address)))
      this.#names.set(address, name)
    }
    return name
  }
}

const DEMANGLE = '__cxa_demangle'
let demangle: CFunction | undefined

/** The name as it is written in C++. A library in C++ has brought the function for it; otherwise the name stays as it is. */
function demangled(name: string): string {
  const found = SharedLibrary.ofProcess.find(DEMANGLE)
  if (!name.startsWith('_Z') || found === undefined) return name
  const parameters = 'const char *mangled_name, char *output_buffer, size_t *length, int *status'
  demangle ??= bindAll([declaration(DEMANGLE, found, parameters, 'address4')])[DEMANGLE]
  const mangled = NativeMemory.ofText(name)
  const address = demangle(mangled.address, 0, 0, 0)
  mangled.free()
  if (address === 0) return name
  const text = layer().text(address)
  own().release(address)
  return text
}
