/** Which code the driver was given for a kernel with machine code for several architectures: each has a variable of another size. */
import { Device, type DeviceBuffer, defineKernel } from 'cuda-streams'

const device = Device.get()
const { major, minor } = device.computeCapability
const code = (bytes: number, name: string): string => `.global .b8 which[${bytes}];\n.entry ${name}(.param .u64 to)`
const cubin = (bytes: number): string => Buffer.from(`\x7fELF ${code(bytes, '_Z3onePj')}`).toString('base64')
const define = (cubins?: Readonly<Record<string, string>>) =>
  defineKernel({ name: 'one', ptx: code(1, 'one'), cubins, mangledName: '_Z3onePj', signature: ['out u32*'] })

const sizeOf = ({ byteLength }: DeviceBuffer): number => byteLength
const own = `sm_${major}${minor}`
const cubins = { sm_10: cubin(2), [own]: cubin(3), [`sm_${major + 1}0`]: cubin(4) }
const [fits, others, none] = [define(cubins), define({ sm_10: cubin(2) }), define()]
await fits.prepare(device)
console.log(`its own: ${sizeOf(fits.global('which', device))}`)
console.log(`of others: ${sizeOf(others.global('which', device))}`)
console.log(`none: ${sizeOf(none.global('which', device))}`)
console.log(
  `the same code is loaded once: ${define(cubins).global('which', device).pointer === fits.global('which', device).pointer}`,
)
