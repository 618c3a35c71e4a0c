/**
 * The two C functions by which CUPTI asks for memory and hands it back, full of records. It calls them on any thread that
 * uses CUDA and on one of its own, also while JavaScript waits for that thread, so neither may need JavaScript. They are
 * machine code: tests/timeline/cupti/record-buffers.*.s have it in words, and a test assembles them.
 */
import { stateError } from '../../base/errors.js'
import { koffi, NativeMemory } from '../../driver/cuda/libcuda/native.js'

interface MachineCode {
  /** The first function is at the beginning, and the address of the state is to come behind the end. */
  readonly bytes: string
  /** Where the second function begins. */
  readonly completed: number
}

/** For Linux, by `process.arch`. */
export const MACHINE_CODES: Readonly<Partial<Record<NodeJS.Architecture, MachineCode>>> = {
  x64: {
    completed: 0x70,
    bytes:
      'f30f1efa53415441554889fb4989f44c8b2d8200000048c7020000000031c0b901000000f0490fc14d08493b4d10730d498b7d2041ff5518' +
      '4885c0750ef049ff4d0848890349890424eb13498b4d204883e9104883c01048890349890c24415d415c5bc366662e0f1f84000000000090' +
      'f30f1efa488b0d1d0000004883ea104c894208488b01488902f0480fb11175f6c30f1f8000000000',
  },
  arm64: {
    completed: 0x90,
    bytes:
      '5f2403d5fd7bbda9fd030091f35301a9f51300f9f30300aaf40301aa350500585f0000f9ac0a40f9a92200912afd5fc85f010ceb82010054' +
      '4a0500912afd0dc86dffff35a01240f9a90e40f920013fd6000100b4a91240f9294100d100400091040000145f3f03d5e0031faae9031faa' +
      '600200f9890200f9f51340f9f35341a9fd7bc3a8c0035fd61f2003d51f2003d55f2403d5690100584a4000d1440500f92b0140f94b0100f9' +
      '2cfd5fc89f010beb81ffff542afd0dc88dffff35c0035fd6',
  },
}
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
    const code = codeForThisMachine()
    this.requested = addCode(code, address)
    this.completed = this.requested + code.completed
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

function codeForThisMachine(): MachineCode {
  const { platform, arch } = process
  const code = platform === 'linux' ? MACHINE_CODES[arch] : undefined
  if (code !== undefined) return code
  const where = `${Object.keys(MACHINE_CODES).join(' and ')} Linux only, and this is ${platform}-${arch}`
  throw stateError(
    'ERR_UNSUPPORTED',
    `Work of other libraries can be recorded on ${where}. Record without \`everything\``,
  )
}

/** Puts the code into memory of its own, and behind it the address of its state. */
function addCode({ bytes: code }: MachineCode, state: number): number {
  const libc = koffi().load(null)
  const P = 'uintptr_t'
  const map = libc.func('mmap', 'intptr_t', [P, P, 'int', 'int', 'int', P])
  const protect = libc.func('mprotect', 'int', [P, P, 'int'])
  const address = map(0, PAGE, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0) as number
  if (address !== -1) {
    const { bytes, uint64 } = new NativeMemory(PAGE, address)
    bytes.set(Buffer.from(code, 'hex'))
    uint64[code.length / 16] = BigInt(state)
    if (protect(address, PAGE, READ | EXECUTE) === 0) return address
  }
  throw stateError(
    'ERR_UNSUPPORTED',
    'Work of other libraries cannot be recorded: the system lets this process add no machine code (SELinux: execmem). Record without `everything`',
  )
}
