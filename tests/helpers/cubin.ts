/** A cubin as small as can be: an ELF file with the symbols of its kernels, and no code. */

interface CubinOptions {
  /** Such as 90. */
  readonly architecture: number
  readonly kernels: readonly string[]
  /** The version of the ABI: 8 since CUDA 13, 7 before. */
  readonly abi?: 7 | 8
  /** 190 is CUDA, 62 is x86-64. */
  readonly machine?: number
}

export function smallCubin({ architecture, kernels, abi = 8, machine = 190 }: CubinOptions): Buffer {
  // A function that is no kernel stands among them.
  const symbols = ['', ...kernels, 'helper']
  const names = Buffer.from(symbols.map((name) => `${name}\0`).join(''), 'latin1')
  const header = Buffer.alloc(64)
  header.write('\x7fELF\x02\x01\x01\x41', 'latin1')
  header[8] = abi
  header.writeUInt16LE(machine, 18)
  header.writeUInt32LE(abi === 8 ? 0x600_0004 | (architecture << 8) : (architecture << 16) | 0x500 | architecture, 48)
  const table = Buffer.alloc(symbols.length * 24)
  let at = 0
  for (const [index, name] of symbols.entries()) {
    table.writeUInt32LE(at, index * 24)
    table[index * 24 + 4] = index === 0 ? 0 : 0x12
    table[index * 24 + 5] = kernels.includes(name) ? 0x10 : 0
    at += name.length + 1
  }
  const sections = Buffer.alloc(3 * 64)
  const section = (index: number, type: number, offset: number, size: number, link: number): void => {
    sections.writeUInt32LE(type, index * 64 + 4)
    sections.writeBigUInt64LE(BigInt(offset), index * 64 + 24)
    sections.writeBigUInt64LE(BigInt(size), index * 64 + 32)
    sections.writeUInt32LE(link, index * 64 + 40)
  }
  section(1, 3, header.length, names.length, 0)
  section(2, 2, header.length + names.length, table.length, 1)
  header.writeBigUInt64LE(BigInt(header.length + names.length + table.length), 40)
  header.writeUInt16LE(64, 58)
  header.writeUInt16LE(3, 60)
  return Buffer.concat([header, names, table, sections])
}
