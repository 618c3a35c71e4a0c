/** Whether this machine has an NVIDIA driver, told by its files; libcuda itself, or what is in the way of it. */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf, stateError } from '../../../base/errors.js'
import { isMusl, layer } from './layer.js'
import { SharedLibrary } from './shared-library.js'

const NAMES: Readonly<Partial<Record<NodeJS.Platform, string>>> = { linux: 'libcuda.so.1', win32: 'nvcuda.dll' }
/** Those that the system's loader may not know. */
const FOLDERS = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/usr/lib/wsl/lib',
  '/usr/local/nvidia/lib64',
  '/run/opengl-driver/lib',
]
/** A container that was given no GPU sees the first, of the machine that it runs on. The last is a Jetson's. */
const OF_THE_KERNEL = ['/proc/driver/nvidia/version', '/dev/nvidiactl', '/dev/nvmap']

/**
 * libcuda; undefined where this machine has no NVIDIA driver.
 * @throws ERR_NO_DRIVER where it has one that cannot be loaded
 */
export function loadLibcuda(): SharedLibrary | undefined {
  const name = NAMES[process.platform]
  if (name === undefined) return undefined
  try {
    return loadFirst(name)
  } catch (error) {
    const traces = driverTraces()
    if (traces.length === 0) return undefined
    throw noDriver(
      `The NVIDIA driver of this machine (${traces.join(', ')}) cannot be used: ${messageOf(error)}`,
      error,
    )
  }
}

function loadFirst(name: string): SharedLibrary {
  layer()
  const reasons: string[] = []
  for (const path of pathsOf(name)) {
    try {
      return SharedLibrary.open(path)
    } catch (error) {
      if (path !== name) reasons.push(messageOf(error))
    }
  }
  if (reasons.length === 0)
    throw new Error(
      `${name} is not here. Install the driver's libraries for computing; a container is given them by --gpus all, with 'compute' among NVIDIA_DRIVER_CAPABILITIES`,
    )
  if (isMusl()) reasons.push("this is musl (Alpine), and NVIDIA's libraries need glibc: take another image")
  throw new Error(reasons.join('; '))
}

/** By name first: then it is the one that other libraries of this process use. */
function* pathsOf(name: string): Iterable<string> {
  yield name
  yield* libcudaFiles()
}

/** The files of libcuda, also those that the loader does not find or cannot load. */
function libcudaFiles(): readonly string[] {
  const name = NAMES[process.platform]
  if (name === undefined) return []
  if (process.platform === 'win32') return [join(process.env['SystemRoot'] ?? '', 'System32', name)].filter(isThere)
  const named = (process.env['LD_LIBRARY_PATH'] ?? '').split(':').filter((folder) => folder !== '')
  const folders = [...named, ...FOLDERS]
  const ofTheLoader = contents('/etc/ld.so.cache').match(/\/[^\0]*\/libcuda\.so\.1(?=\0)/g) ?? []
  return [...new Set([...folders.map((folder) => join(folder, name)), ...ofTheLoader])].filter(isThere)
}

/**
 * What shows an NVIDIA driver on this machine: nothing where it has none.
 * @throws ERR_NO_DRIVER where the process may not look
 */
export function driverTraces(): readonly string[] {
  return [...libcudaFiles(), ...(process.platform === 'linux' ? OF_THE_KERNEL.filter(isThere) : [])]
}

/** Why there is no driver on a machine without traces of one. */
export function absence(): string {
  const name = NAMES[process.platform]
  if (name === undefined) return `NVIDIA has no driver for ${process.platform}`
  const where =
    process.platform === 'linux' ? `, nor in ${FOLDERS.join(', ')}; none of ${OF_THE_KERNEL.join(', ')}` : ''
  return `This machine has no NVIDIA driver: no ${name} where the loader looks${where}`
}

/** The version of the kernel's half of the driver, such as '580.159.04', where it tells. */
export const kernelDriverVersion = (): string | undefined =>
  /\d+\.\d+(\.\d+)?(?= )/.exec(contents('/proc/driver/nvidia/version'))?.[0]

export const noDriver = (problem: string, cause?: unknown): Error =>
  stateError('ERR_NO_DRIVER', `${problem}. To have the simulated GPU instead, set CUDA_STREAMS_DRIVER=sim`, cause)

/** Of a file that not every machine has. */
function contents(path: string): string {
  return isThere(path) ? readFileSync(path, 'latin1') : ''
}

function isThere(path: string): boolean {
  try {
    return statSync(path) !== undefined
  } catch (error) {
    // The system has answered. A refusal of Node's or Deno's permissions names no call of the system.
    if (error instanceof Error && 'syscall' in error) return false
    const hint = 'Allow it (Node: --allow-fs-read=*, Deno: --allow-all)'
    throw noDriver(
      `Whether this machine has an NVIDIA driver cannot be told: ${path} may not be looked for. ${hint}`,
      error,
    )
  }
}

/** The version of the C library that this process runs on, where it is glibc. */
export function glibcVersion(): string | undefined {
  const { header } = JSON.parse(JSON.stringify(process.report.getReport()))
  return header.glibcVersionRuntime
}
