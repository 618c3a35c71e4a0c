/** Reads a pointer from memory that may not be there. */
import { koffi, NativeMemory } from '../libcuda/native.js'

/** The pointer that stands at an address, a multiple of 8; undefined where the address cannot be read. */
export type Reader = (address: number) => number | undefined

const P = 'uintptr_t'
const PAGE = 4096

/** The way that works in this process: some containers forbid the best one. */
export function safeReader(): Reader {
  if (process.platform === 'win32') return windowsReader()
  const byCopy = copyingReader()
  const known = new NativeMemory(8)
  known.uint64[0] = 42n
  const works = byCopy(known.address) === 42
  known.free()
  return works ? byCopy : mappingReader()
}

/** Has the kernel copy the bytes, which answers with an error where others would crash. */
function copyingReader(): Reader {
  const memory = new NativeMemory(64)
  const readv = koffi().load(null).func('process_vm_readv', 'int64', ['int', P, P, P, P, P])
  const { pid } = process
  // Two struct iovec: where to, and where from.
  const [local, remote, target] = [memory.address, memory.address + 16, memory.address + 32]
  memory.uint64[0] = BigInt(target)
  memory.uint64[1] = 8n
  memory.uint64[3] = 8n
  return (address) => {
    memory.uint64[2] = BigInt(address)
    return readv(pid, local, 1, remote, 1, 0) === 8 ? memory.pointerAt(32) : undefined
  }
}

/** Asks whether the page is mapped, and reads it then. A page that is mapped but must not be read still crashes. */
export function mappingReader(): Reader {
  const memory = new NativeMemory(8)
  const mincore = koffi().load(null).func('mincore', 'int', [P, P, P])
  const { decode } = koffi()
  return (address) => {
    const page = address - (address % PAGE)
    return mincore(page, PAGE, memory.address) === 0 ? Number(decode.uint64(address)) : undefined
  }
}

function windowsReader(): Reader {
  const memory = new NativeMemory(8)
  const kernel = koffi().load('kernel32.dll')
  const current = kernel.func('GetCurrentProcess', P, [])() as number
  const read = kernel.func('ReadProcessMemory', 'int', [P, P, P, P, P])
  return (address) => (read(current, address, memory.address, 8, 0) === 0 ? undefined : memory.pointerAt(0))
}
