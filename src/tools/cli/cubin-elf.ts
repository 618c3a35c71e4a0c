/** The facts in a cubin, an ELF file: its architecture and its kernels. */

export interface CubinFacts {
  /** The architecture, such as 'sm_90'. The file does not say whether it is 'sm_90a'. */
  readonly architecture: string
  /** The names that C++ gives the kernels. */
  readonly kernels: readonly string[]
}

const MACHINE_CUDA = 190
/** The version of the ABI (CUDA 13) since which the architecture is in another byte of the flags. */
const ABI_OF_CUDA_13 = 8
const SYMBOLS = 2
const SYMBOL_BYTES = 24
const TYPE_FUNCTION = 2
/** The bit of a symbol's `st_other` that kernels have, and other functions do not. */
const IS_KERNEL = 0x10

export const isElf = (code: Uint8Array): boolean =>
  code[0] === 0x7f && code[1] === 0x45 && code[2] === 0x4c && code[3] === 0x46

/**
 * Reads a cubin.
 * @throws Error for a file that is no cubin, or a damaged one
 */
export function readCubin(code: Uint8Array): CubinFacts {
  const view = new DataView(code.buffer, code.byteOffset, code.byteLength)
  const word = (offset: number): number => view.getUint32(offset, true)
  const long = (offset: number): number => Number(view.getBigUint64(offset, true))
  const half = (offset: number): number => view.getUint16(offset, true)
  const kernels: string[] = []
  try {
    if (!isElf(code) || half(18) !== MACHINE_CUDA) throw new Error('it is an ELF file of another machine')
    const flags = word(48)
    const number = view.getUint8(8) >= ABI_OF_CUDA_13 ? (flags >> 8) & 0xff : flags & 0xff
    const section = (index: number): number => long(40) + index * half(58)
    for (let index = 0; index < half(60); index++) {
      const header = section(index)
      if (word(header + 4) !== SYMBOLS) continue
      const names = long(section(word(header + 40)) + 24)
      const [first, size] = [long(header + 24), long(header + 32)]
      for (let symbol = first; symbol < first + size; symbol += SYMBOL_BYTES) {
        const isFunction = (view.getUint8(symbol + 4) & 0xf) === TYPE_FUNCTION
        if (isFunction && (view.getUint8(symbol + 5) & IS_KERNEL) !== 0)
          kernels.push(textAt(code, names + word(symbol)))
      }
    }
    return { architecture: `sm_${number}`, kernels }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new Error('it is a cubin that ends early', { cause: error })
  }
}

const textAt = (code: Uint8Array, start: number): string =>
  new TextDecoder('latin1').decode(code.subarray(start, code.indexOf(0, start)))
