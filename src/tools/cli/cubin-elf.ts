/** The facts in a cubin, an ELF file: its architecture and its kernels. */
import { invalidValue } from '../../foundation/base/errors.js'

export interface CubinFacts {
  /** The architecture, such as 'sm_90'. The file does not say whether it is 'sm_90a'. */
  readonly architecture: string
  /** The names that C++ gives the kernels. */
  readonly kernels: readonly string[]
}

const MACHINE_CUDA = 190
const BITS_64 = 2
const LITTLE_ENDIAN = 1
/** The version of the ABI (CUDA 13) since which the architecture is in another byte of the flags. */
const ABI_OF_CUDA_13 = 8
const SECTION_BYTES = 64
const SYMBOLS = 2
const SYMBOL_BYTES = 24
const TYPE_FUNCTION = 2
/** The bit of a symbol's `st_other` that kernels have, and other functions do not. */
const IS_KERNEL = 0x10

export const isElf = (code: Uint8Array): boolean =>
  code[0] === 0x7f && code[1] === 0x45 && code[2] === 0x4c && code[3] === 0x46

const damaged = (why: string): Error => invalidValue(`it is a damaged cubin: ${why}`)

/**
 * Reads a cubin. Tables of symbols do not overlap, and each kernel has its own name: so damaged numbers make it read no more bytes than the file has.
 * @throws ERR_INVALID_ARG_VALUE for what is no cubin, or a damaged one
 */
export function readCubin(code: Uint8Array): CubinFacts {
  const view = new DataView(code.buffer, code.byteOffset, code.byteLength)
  const word = (offset: number): number => view.getUint32(offset, true)
  const long = (offset: number): number => Number(view.getBigUint64(offset, true))
  const half = (offset: number): number => view.getUint16(offset, true)
  const kernels: string[] = []
  /** Bytes of tables of symbols, and of names, that may still be read. */
  let [symbolBytes, nameBytes] = [code.length, code.length]
  try {
    const isCubin = isElf(code) && code[4] === BITS_64 && code[5] === LITTLE_ENDIAN && half(18) === MACHINE_CUDA
    if (!isCubin) throw invalidValue('it is an ELF file of another machine')
    const flags = word(48)
    const number = view.getUint8(8) >= ABI_OF_CUDA_13 ? (flags >> 8) & 0xff : flags & 0xff
    const [count, sectionBytes] = [half(60), half(58)]
    if (count > 0 && sectionBytes !== SECTION_BYTES)
      throw damaged(`it says that the header of a section has ${sectionBytes} bytes, which has ${SECTION_BYTES}`)
    const section = (index: number): number => long(40) + index * SECTION_BYTES
    for (let index = 0; index < count; index++) {
      const header = section(index)
      if (word(header + 4) !== SYMBOLS) continue
      const namesOf = word(header + 40)
      if (namesOf >= count) throw damaged(`the names of its symbols are in section ${namesOf} of ${count}`)
      const [names, namesSize] = [long(section(namesOf) + 24), long(section(namesOf) + 32)]
      const [first, size] = [long(header + 24), long(header + 32)]
      symbolBytes -= size
      if (symbolBytes < 0) throw damaged(`its tables of symbols are longer than its ${code.length} bytes`)
      for (let symbol = first; symbol < first + size; symbol += SYMBOL_BYTES) {
        const isFunction = (view.getUint8(symbol + 4) & 0xf) === TYPE_FUNCTION
        if (!isFunction || (view.getUint8(symbol + 5) & IS_KERNEL) === 0) continue
        const name = textAt(code, names + word(symbol), Math.min(names + namesSize, code.length))
        nameBytes -= name.length + 1
        if (nameBytes < 0) throw damaged(`the names of its kernels are longer than its ${code.length} bytes`)
        kernels.push(name)
      }
    }
    return { architecture: `sm_${number}`, kernels }
  } catch (error) {
    // What lies outside of the file cannot be read.
    if (!(error instanceof RangeError)) throw error
    throw invalidValue('it is a cubin that ends early, or a damaged one')
  }
}

/** The bytes up to the next 0 before `end`. */
function textAt(code: Uint8Array, start: number, end: number): string {
  if (start >= end) throw damaged(`a name of its symbols begins at byte ${start}, and the names end at byte ${end}`)
  const length = code.subarray(start, end).indexOf(0)
  if (length < 0) throw damaged(`the name of its symbols at byte ${start} has no end`)
  return new TextDecoder('latin1').decode(code.subarray(start, start + length))
}
