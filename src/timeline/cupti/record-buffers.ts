/**
 * The two C functions by which CUPTI asks for memory and hands it back, full of records. It calls them on any thread that
 * uses CUDA and on one of its own, also while JavaScript waits for that thread, so neither may need JavaScript. They are
 * 150 bytes of machine code: tests/timeline/cupti/record-buffers.s has them in words, and a test assembles it.
 */
import { stateError } from '../../base/errors.js'
import { koffi, NativeMemory } from '../../driver/cuda/libcuda/native.js'

/** For x86-64 and the System V ABI. The address of the state comes behind it. */
export const MACHINE_CODE =
  'f30f1efa53415441554889fb4989f44c8b2d8200000048c7020000000031c0b901000000f0490fc14d08493b4d10730d498b7d2041ff55184885c075' +
  '0ef049ff4d0848890349890424eb13498b4d204883e9104883c01048890349890c24415d415c5bc366662e0f1f84000000000090' +
  'f30f1efa488b0d1d0000004883ea104c894208488b01488902f0480fb11175f6c30f1f8000000000'
const COMPLETED_AT = 0x70
/** The words of the state. */
const Word = { NEWEST: 0, REQUESTED: 1, MOST: 2, MALLOC: 3, NODE_BYTES: 4 } as const
const STATE_BYTES = 40
/** In front of the records: the node that was handed back before, and how many bytes are records. */
const NODE_HEAD = 16
const PAGE = 4096
const READ = 1
const WRITE = 2
const EXECUTE = 4
const PRIVATE_ANONYMOUS = 0x22

export interface RecordBuffer {
  readonly address: number
  readonly length: number
}

export class RecordBuffers {
  /** A CUpti_BuffersCallbackRequestFunc and a CUpti_BuffersCallbackCompleteFunc, which stay for good. */
  readonly requested: number
  readonly completed: number
  readonly #state = new NativeMemory(STATE_BYTES)

  /** @throws ERR_UNSUPPORTED where there is no code for this machine, or the process may have no more */
  constructor(bufferBytes: number) {
    const libc = koffi().load(null)
    const { uint64, address } = this.#state
    uint64[Word.MALLOC] = BigInt(libc.symbol('malloc'))
    uint64[Word.NODE_BYTES] = BigInt(NODE_HEAD + bufferBytes)
    this.requested = addCode(address)
    this.completed = this.requested + COMPLETED_AT
  }

  /** Lets so many more buffers be asked for. */
  allow(count: number): void {
    const { uint64 } = this.#state
    uint64[Word.MOST] = (uint64[Word.REQUESTED] ?? 0n) + BigInt(count)
  }

  /** Reads what was handed back since the last time, oldest first, and lets go of it. */
  drain(read: (buffer: RecordBuffer) => void): void {
    const nodes: number[] = []
    const { uint64 } = koffi().decode
    let node = Number(Atomics.exchange(this.#state.uint64, Word.NEWEST, 0n))
    for (; node !== 0; node = Number(uint64(node))) nodes.push(node)
    for (const each of nodes.reverse()) {
      read({ address: each + NODE_HEAD, length: Number(uint64(each + 8)) })
      koffi().free(BigInt(each))
    }
  }
}

/** The code in memory of its own, behind it the address of its state. */
function addCode(state: number): number {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    const here = `${process.platform}-${process.arch}`
    throw stateError(
      'ERR_UNSUPPORTED',
      `Work of other libraries can be recorded on linux-x64 only, and this is ${here}`,
    )
  }
  const libc = koffi().load(null)
  const P = 'uintptr_t'
  const map = libc.func('mmap', 'intptr_t', [P, P, 'int', 'int', 'int', P])
  const protect = libc.func('mprotect', 'int', [P, P, 'int'])
  const address = map(0, PAGE, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0) as number
  if (address !== -1) {
    const { bytes, uint64 } = new NativeMemory(PAGE, address)
    bytes.set(Buffer.from(MACHINE_CODE, 'hex'))
    uint64[MACHINE_CODE.length / 16] = BigInt(state)
    if (protect(address, PAGE, READ | EXECUTE) === 0) return address
  }
  throw stateError(
    'ERR_UNSUPPORTED',
    'Work of other libraries cannot be recorded: the system lets this process add no machine code (SELinux: execmem)',
  )
}
