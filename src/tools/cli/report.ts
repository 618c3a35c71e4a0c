/** The findings of the doctor, and their text for a terminal. Their JSON is the interface `Report`. docs/guides/doctor.md documents both. */
import * as util from 'node:util'
import { printable, printableLines } from '../../foundation/base/printable.js'
import type { CacheFolder } from '../../foundation/native/cache-folder.js'

/** A library: its version and file, or the reason why it cannot be used; `brief` is that without the files that were looked for. */
export type Part =
  | { readonly version: string; readonly file: string | null }
  | { readonly problem: string; readonly brief?: string }

export interface DeviceReport {
  readonly ordinal: number
  readonly name: string
  /** The memory in bytes. */
  readonly memory: number | null
  readonly computeCapability: string
  /** Whether the self-test has passed. */
  readonly works: boolean
}

/** The kernels of one PTX with its cubins, or of a cubin alone, on one device. */
export interface KernelsReport {
  readonly file: string
  readonly kernels: readonly string[]
  /** The architecture that the PTX is compiled for, such as 'sm_75'; null for a cubin alone. */
  readonly arch: string | null
  /** The architectures of the cubins, such as 'sm_90'. */
  readonly cubins: readonly string[]
  /** The ordinal of the device. */
  readonly device: number
  /** The code that the device loads: 'ptx', or one of `cubins`; null if none is for it. */
  readonly loads: string | null
  /** The reason why the device does not run the kernels. */
  readonly problem?: string
}

/** The findings of the process that loads the libraries. Some are missing if it ended early. */
export interface Findings {
  /** The version of the native layer is the platform that it is compiled for. */
  native?: Part
  libcuda?: Part
  driver?: { readonly name: 'cuda' | 'sim' | null; readonly why: string }
  readonly devices: DeviceReport[]
  readonly libraries: Record<string, Part>
  /** The kernels of the files that were named. */
  readonly kernels?: KernelsReport[]
  readonly problems: string[]
}

/** The first character of the lines in which that process reports its findings: the separator of JSON texts (RFC 7464). */
export const SEPARATOR = '\u001e'

/** The step of the examination that begins, and the findings of the steps before it. */
export interface Progress {
  readonly step: string
  readonly found: Findings
}

const STEP = /^\{"step":(?<step>"(?:[^"\\]|\\.)*")/

/**
 * What a line of that process says after `last`; undefined if it says nothing, as lines that libraries print. A process that is ended while it
 * writes leaves a part of a line, which still names the step if it is long enough.
 */
export function progressIn(line: string, last: Progress): Progress | undefined {
  const [, text] = line.split(SEPARATOR)
  if (text === undefined) return undefined
  try {
    return JSON.parse(text)
  } catch {
    const step = STEP.exec(text)?.groups?.['step']
    return step === undefined ? undefined : { step: JSON.parse(step), found: last.found }
  }
}

export interface Report extends Findings {
  /** Whether everything that is requested works, without problems. */
  readonly ok: boolean
  /** The version of cuda-streams. */
  readonly version: string
  readonly runtime: { readonly name: 'node' | 'bun' | 'deno'; readonly version: string }
  readonly platform: { readonly system: string; readonly arch: string; readonly libc: string | null }
  /** The environment variables that have an effect on the library and are set. */
  readonly variables: Readonly<Record<string, string>>
  /** The files that show that this machine has an NVIDIA driver. */
  readonly traces: readonly string[]
  /** The version of the NVIDIA driver in the kernel. */
  readonly kernelDriver: string | null
  /** The folder in which code of .cu files is cached, or the reason why it is compiled each time. */
  readonly cache: CacheFolder
  /** The oldest version of CUDA that libcuda may have. */
  readonly neededCuda: string
}

type Mark = '✓' | '–' | '✗'
type Row = readonly [mark: Mark, name: string, text: string]

/** The purposes of libraries whose name does not show it. */
const PURPOSES: Readonly<Record<string, string>> = { CUPTI: " (timelines of other libraries' work need it)" }

/** The report as text for a terminal. @param isVerbose Whether the files are told that were looked for in vain */
export function textOf(report: Report, isVerbose = false): string {
  const { runtime, platform, traces, kernelDriver, variables, driver, problems } = report
  const libc = platform.libc === null ? '' : ` (${platform.libc})`
  const rows: readonly Row[] = [
    rowOf('native layer', report.native, isVerbose),
    rowOf('libcuda', report.libcuda, isVerbose, 'for CUDA ', ` (${report.neededCuda} or later is needed)`),
    ...(traces.length === 0 ? [] : [['✓', 'driver files', traces.join(', ')] as const]),
    ...(kernelDriver === null ? [] : [['✓', 'kernel driver', kernelDriver] as const]),
    ...Object.entries(report.libraries).map(([name, library]) => rowOf(name, library, isVerbose, '', PURPOSES[name])),
    'problem' in report.cache
      ? ['–', 'cache', `none, so .cu files are compiled each time: ${report.cache.problem}`]
      : ['✓', 'cache', report.cache.folder],
    ...Object.entries(variables).map(([name, value]): Row => {
      const isWrong = problems.some((problem) => problem.includes(name))
      return [isWrong ? '✗' : '✓', name, value]
    }),
    [driver?.name ? '✓' : '✗', 'driver', driver?.name ? `${driver.name}: ${driver.why}` : 'none: see below'],
    ...report.devices.map(rowOfDevice),
    ...(report.kernels ?? []).map(rowOfKernels),
  ]
  const width = Math.max(...rows.map(([, name]) => name.length))
  return [
    `cuda-streams ${report.version} on ${runtime.name} ${runtime.version}, ${platform.system} ${platform.arch}${libc}`,
    '',
    ...rows.map(([mark, name, text]) => `${coloured(mark)} ${name.padEnd(width)}  ${printable(text)}`),
    '',
    ...(problems.length === 0
      ? [
          `Everything that is requested works.${isVerbose || !hasMore(report) ? '' : ' --verbose names the files that were looked for.'}`,
        ]
      : ['What does not work:', ...problems.map((problem) => `  ${printableLines(problem)}`)]),
  ].join('\n')
}

/** Whether a part is told in brief. */
const hasMore = ({ libcuda, libraries }: Report): boolean =>
  [libcuda, ...Object.values(libraries)].some((part) => part !== undefined && 'brief' in part)

function rowOf(name: string, part: Part | undefined, isVerbose: boolean, before = '', after = ''): Row {
  if (part === undefined) return ['✗', name, 'not examined']
  if ('problem' in part) return ['–', name, isVerbose ? part.problem : (part.brief ?? part.problem)]
  return ['✓', name, `${before}${part.version}${after}${part.file === null ? '' : `: ${part.file}`}`]
}

function rowOfDevice({ ordinal, name, memory, computeCapability, works }: DeviceReport): Row {
  const size = memory === null ? '' : `, ${(memory / 2 ** 30).toFixed(1)} GiB`
  const test = works ? 'passed' : 'failed'
  return [
    works ? '✓' : '✗',
    `device ${ordinal}`,
    `${name}${size}, compute capability ${computeCapability}: the self-test ${test}`,
  ]
}

function rowOfKernels({ file, kernels, arch, cubins, device, loads, problem }: KernelsReport): Row {
  const which = `${kernels.join(', ')} (${codeText(arch, cubins)})`
  if (problem !== undefined) return ['✗', file, `${which}: device ${device} does not run them`]
  const by = cubins.length === 0 ? '' : loads === 'ptx' ? ', from the PTX' : `, from the cubin for ${loads}`
  return ['✓', file, `${which}: device ${device} runs them${by}`]
}

/** The architectures of kernels as text, such as 'sm_75, cubins for sm_80, sm_90'. */
export const codeText = (arch: string | null, cubins: readonly string[]): string =>
  [
    ...(arch === null ? [] : [arch]),
    ...(cubins.length === 0 ? [] : [`${cubins.length === 1 ? 'a cubin' : 'cubins'} for ${cubins.join(', ')}`]),
  ].join(', ')

const COLOURS = { '✓': 'green', '✗': 'red', '–': 'yellow' } as const

function coloured(mark: Mark): string {
  return process.stdout.isTTY && process.stdout.hasColors() ? util.styleText(COLOURS[mark], mark) : mark
}
