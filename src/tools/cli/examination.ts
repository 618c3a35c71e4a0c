/**
 * The part of the doctor that loads libraries and uses devices. It is a process of its own, since a broken driver may crash or hang. Before each
 * step it prints a line with the step and the findings so far.
 */

import { readFileSync, writeSync } from 'node:fs'
import { basename } from 'node:path'
import { Device } from '../../core/device.js'
import { architectureFor } from '../../core/kernels/cubins.js'
import { Module } from '../../core/kernels/kernel.js'
import { absence, cudaVersion, loadLibcuda, versionText } from '../../cuda/libcuda/libcuda.js'
import { LibraryVariable, VARIABLES } from '../../foundation/base/environment-variables.js'
import { messageOf } from '../../foundation/base/errors.js'
import type { CFunction } from '../../foundation/native/c-functions.js'
import { layerFile } from '../../foundation/native/layer.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { absenceInBrief, fileOf, loadLibrary, type SharedLibrary } from '../../foundation/native/shared-library.js'
import { baseOf, loadOrt, ORT_BASE } from '../../libraries/onnx/onnx-library.js'
import { readKernelFacts } from '../../ptx/ptx.js'
import '../../core/shortcuts.js'
import { checkCuptiVersion } from '../timeline/cupti/cupti-library.js'
import { type CompiledKernels, kernelsIn } from './compiled-kernels.js'
import { codeText, type DeviceReport, type Findings, type KernelsReport, type Part, SEPARATOR } from './report.js'

/** The way to query the version of a library. */
interface VersionCall {
  /** The function that returns the version, with its parameters. */
  readonly function: string
  readonly parameters: string
  /** Calls that function. Returns the version as text. */
  version(call: CFunction, memory: NativeMemory): string
}

/** The libraries whose version is not a property, which those of the CUDA toolkit have: they have `NAMEGetProperty`. */
const VERSION_CALLS: Readonly<Record<string, VersionCall>> = {
  NVRTC: {
    function: 'nvrtcVersion',
    parameters: 'int *major, int *minor',
    version(call, { address, int32 }) {
      call(address, address + 4)
      return int32.slice(0, 2).join('.')
    },
  },
  NCCL: {
    function: 'ncclGetVersion',
    parameters: 'int *version',
    version(call, { address, int32 }) {
      call(address)
      const [version = 0] = int32
      return [version / 10_000, (version / 100) % 100, version % 100].map(Math.floor).join('.')
    },
  },
  NVML: {
    function: 'nvmlSystemGetNVMLVersion',
    parameters: 'char *version, unsigned int length',
    version(call, { address, bytes }) {
      call(address, bytes.length)
      return Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString('utf8')
    },
  },
  CUPTI: {
    function: 'cuptiGetVersion',
    parameters: 'uint32_t *version',
    version(call, { address, uint32 }) {
      call(address)
      const [version = 0] = uint32
      checkCuptiVersion(version)
      return String(version)
    },
  },
}

const propertyOf = (name: string): VersionCall => ({
  function: `${name.toLowerCase()}GetProperty`,
  parameters: 'libraryPropertyType type, int *value',
  version(call, { address, int32 }) {
    for (const part of [0, 1, 2]) call(part, address + 4 * part)
    return int32.slice(0, 3).join('.')
  },
})
/** The bytes for a version, which NVML writes as text. */
const TEXT_BYTES = 80
const BYTES = 2 ** 20
const VALUE = 0xa5

const files = process.argv.slice(2)
const found: Findings = { devices: [], libraries: {}, problems: [], ...(files.length > 0 && { kernels: [] }) }
let libcuda: SharedLibrary | undefined

function begin(step: string): void {
  writeSync(1, `${SEPARATOR}${JSON.stringify({ step, found })}\n`)
}

function part(examine: () => Part): Part {
  try {
    return examine()
  } catch (error) {
    const brief = absenceInBrief(error)
    return { problem: messageOf(error), ...(brief !== undefined && { brief }) }
  }
}

function examineLayer(): Part {
  const file = layerFile()
  return { version: basename(file, '.node'), file }
}

/** The problem without the files that were looked for. */
const inBrief = (problem: string): string => problem.split(':')[0] ?? problem

function examineLibcuda(): Part {
  libcuda = loadLibcuda()
  if (libcuda === undefined) return { problem: absence(), brief: inBrief(absence()) }
  const version = cudaVersion(libcuda)
  return {
    version: version === undefined ? 'unknown' : versionText(version),
    file: fileOf(libcuda, 'cuInit') ?? null,
  }
}

function examineLibrary(name: string, variable: LibraryVariable): Part {
  if (variable === VARIABLES.onnxruntime) {
    const library = loadOrt()
    return { version: baseOf(library).version, file: fileOf(library, ORT_BASE) ?? null }
  }
  const library = loadLibrary(variable)
  const { function: symbol, parameters, version } = VERSION_CALLS[name] ?? propertyOf(name)
  const functions = library.functions({ [symbol]: parameters })
  return {
    version: version((...args) => functions[symbol]?.(...args) ?? 0, new NativeMemory(TEXT_BYTES)),
    file: fileOf(library, symbol) ?? null,
  }
}

function chooseDriver(): void {
  try {
    const { driver } = Device.get(0)
    const value = VARIABLES.driver.read()
    const byItself = driver === 'cuda' ? 'the NVIDIA driver works' : 'this machine has no NVIDIA driver'
    found.driver = { name: driver, why: value === 'auto' ? byItself : `CUDA_STREAMS_DRIVER=${value}` }
  } catch (error) {
    found.driver = { name: null, why: messageOf(error) }
    found.problems.push(messageOf(error))
  }
}

function memoryOf(device: Device): number | null {
  if (device.driver === 'sim') return device.memory.total
  if (libcuda === undefined) return null
  const { address, int32, uint64 } = new NativeMemory(8)
  const { cuDeviceGet, cuDeviceTotalMem_v2 } = libcuda.functions({
    cuDeviceGet: 'CUdevice *device, int ordinal',
    cuDeviceTotalMem_v2: 'size_t *bytes, CUdevice dev',
  })
  cuDeviceGet(address, device.ordinal)
  cuDeviceTotalMem_v2(address, int32[0] ?? 0)
  return Number(uint64[0])
}

async function examineDevice(ordinal: number): Promise<DeviceReport> {
  const device = Device.get(ordinal)
  const { major, minor } = device.computeCapability
  const about = { ordinal, name: device.name, memory: memoryOf(device), computeCapability: `${major}.${minor}` }
  begin(`self-test of device ${ordinal}`)
  try {
    await selfTest(device)
    return { ...about, works: true }
  } catch (error) {
    found.problems.push(`The self-test of device ${ordinal} (${about.name}) failed: ${messageOf(error)}`)
    return { ...about, works: false }
  }
}

/** Queues a fill, a copy, a copy to the host, and a host function that checks the bytes. */
async function selfTest(device: Device): Promise<void> {
  using stream = device.createStream()
  using source = device.alloc(BYTES, { stream })
  using target = device.alloc(BYTES, { stream })
  using pinned = device.allocPinned(BYTES)
  const bytes = pinned.view(Uint8Array)
  let right: number | undefined
  stream.fill(source, VALUE).copy(target, source).copy(pinned, target)
  stream.launchHostFunc(() => {
    right = bytes.reduce((count, byte) => count + Number(byte === VALUE), 0)
  })
  await stream.finished()
  if (right === undefined) throw new Error('the host function did not run')
  if (right !== BYTES) throw new Error(`${BYTES - right} of ${BYTES} bytes are wrong`)
}

/** Loads the kernels on each device, as a program does. */
async function examineFiles(): Promise<void> {
  for (const file of files) {
    begin(file)
    try {
      const images = kernelsIn(readFileSync(file))
      if (images.length === 0)
        throw new Error('there is no PTX in it, and no cubin: name what a build has written, or a module of `compile`')
      for (const image of images)
        for (const { ordinal } of found.devices)
          found.kernels?.push(await examineKernels(file, image, Device.get(ordinal)))
    } catch (error) {
      found.problems.push(`${file}: ${messageOf(error)}`)
    }
  }
}

async function examineKernels(file: string, image: CompiledKernels, device: Device): Promise<KernelsReport> {
  const { kernels, arch = null, ptx } = image
  // The simulator runs PTX alone.
  const architecture =
    device.driver === 'sim' ? undefined : architectureFor(image.cubins.keys(), device.computeCapability)
  const cubins = [...image.cubins.keys()]
  const loads = architecture ?? (ptx === undefined ? null : 'ptx')
  const about = { file, kernels, arch, cubins, device: device.ordinal, loads }
  try {
    if (architecture !== undefined) await loadCubin(architecture, image, device)
    else if (ptx !== undefined) await loadPtx(ptx, device)
    else throw new Error(noCodeFor(device))
    return about
  } catch (error) {
    const problem = messageOf(error)
    found.problems.push(
      `${file}: device ${device.ordinal} (${device.name}) does not run ${kernels.join(', ')} (${codeText(arch, cubins)}): ${problem}`,
    )
    return { ...about, problem }
  }
}

async function loadCubin(name: string, { cubins }: CompiledKernels, device: Device): Promise<void> {
  const { code = new Uint8Array(), architecture = name } = cubins.get(name) ?? {}
  if (name.replace(/[af]$/, '') !== architecture)
    throw new Error(`what the program has as its cubin for ${name} is one for ${architecture}: compile it again`)
  using _module = await Module.load(code, { device })
}

async function loadPtx(ptx: string, device: Device): Promise<void> {
  using _module = await Module.load(ptx, { device })
  // The simulator compiles a kernel when it is launched.
  for (const [name, facts] of device.driver === 'sim' ? readKernelFacts(ptx) : []) {
    if (facts instanceof Error) throw facts
    if (facts.whyNotRun !== undefined) throw new Error(`${name} cannot be launched: ${facts.whyNotRun}`)
  }
}

function noCodeFor({ driver, computeCapability }: Device): string {
  if (driver === 'sim') return 'the simulator runs PTX, and there is machine code alone: keep the PTX beside it'
  const { major, minor } = computeCapability
  return `a GPU of compute capability ${major}.${minor} runs cubins for sm_${major}0 to sm_${major}${minor}, and there is no PTX: compile for it, too, by \`--cubin sm_${major}${minor}\`, or keep the PTX`
}

begin('native layer')
found.native = part(examineLayer)
begin('libcuda')
found.libcuda = part(examineLibcuda)
begin('choice of the driver')
chooseDriver()
for (let ordinal = 0; found.driver?.name && ordinal < Device.count(); ordinal++) {
  begin(`device ${ordinal}`)
  found.devices.push(await examineDevice(ordinal))
}
if (files.length > 0) await examineFiles()
const hasLayer = 'version' in found.native
for (const variable of Object.values(VARIABLES)) {
  if (!(variable instanceof LibraryVariable)) continue
  const { title } = variable.library
  const [name = title] = title.split(',')
  begin(name)
  const report = hasLayer ? part(() => examineLibrary(name, variable)) : { problem: `${title} needs the native layer` }
  found.libraries[name] = report
  if ('problem' in report && variable.read() !== '') found.problems.push(report.problem)
}
begin('end')
