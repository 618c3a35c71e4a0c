/** What the doctor finds: as JSON it is this interface, on a terminal a page of text. docs/doctor.md documents both. */
import { styleText } from 'node:util'
import { printable, printableLines } from '../base/printable.js'

/** A library: what it is, or why it cannot be used. */
export type Part = { readonly version: string; readonly file: string | null } | { readonly problem: string }

export interface DeviceReport {
  readonly ordinal: number
  readonly name: string
  /** In bytes. */
  readonly memory: number | null
  readonly computeCapability: string
  /** Has the self-test passed? */
  readonly works: boolean
}

/** What the process that loads the libraries finds; where it ends early, something is left out. */
export interface Findings {
  /** Its version is the platform that it is made for. */
  native?: Part
  libcuda?: Part
  driver?: { readonly name: 'cuda' | 'sim' | null; readonly why: string }
  readonly devices: DeviceReport[]
  readonly libraries: Record<string, Part>
  readonly problems: string[]
}

/** Begins the lines by which that process tells of them: the mark for JSON between other output (RFC 7464). */
export const SEPARATOR = '\u001e'

export interface Report extends Findings {
  /** Does all work that is asked for? That is, are there no problems? */
  readonly ok: boolean
  /** Of cuda-streams. */
  readonly version: string
  readonly runtime: { readonly name: 'node' | 'bun' | 'deno'; readonly version: string }
  readonly platform: { readonly system: string; readonly arch: string; readonly libc: string | null }
  /** The environment variables that are set, of those that count. */
  readonly variables: Readonly<Record<string, string>>
  /** What shows an NVIDIA driver on this machine. */
  readonly traces: readonly string[]
  /** The version of the driver in the kernel. */
  readonly kernelDriver: string | null
  /** The CUDA that libcuda must at least be for. */
  readonly neededCuda: string
}

type Mark = '✓' | '–' | '✗' | ' '
type Row = readonly [mark: Mark, name: string, text: string]

/** Of libraries whose name does not say what they are for. */
const PURPOSES: Readonly<Record<string, string>> = { CUPTI: " (timelines of other libraries' work need it)" }

/** For people. */
export function textOf(report: Report): string {
  const { runtime, platform, traces, kernelDriver, variables, driver, problems } = report
  const libc = platform.libc === null ? '' : ` (${platform.libc})`
  const rows: readonly Row[] = [
    rowOf('native layer', report.native),
    rowOf('libcuda', report.libcuda, 'for CUDA ', ` (${report.neededCuda} or later is needed)`),
    ...(traces.length === 0 ? [] : [[' ', 'driver files', traces.join(', ')] as const]),
    ...(kernelDriver === null ? [] : [[' ', 'kernel driver', kernelDriver] as const]),
    ...Object.entries(report.libraries).map(([name, library]) => rowOf(name, library, '', PURPOSES[name])),
    ...Object.entries(variables).map(([name, value]): Row => [' ', name, value]),
    [driver?.name ? '✓' : '✗', 'driver', driver?.name ? `${driver.name}: ${driver.why}` : 'none: see below'],
    ...report.devices.map(rowOfDevice),
  ]
  const width = Math.max(...rows.map(([, name]) => name.length))
  return [
    `cuda-streams ${report.version} on ${runtime.name} ${runtime.version}, ${platform.system} ${platform.arch}${libc}`,
    '',
    ...rows.map(([mark, name, text]) => `${coloured(mark)} ${name.padEnd(width)}  ${printable(text)}`),
    '',
    ...(problems.length === 0
      ? ['All that is asked for works.']
      : ['What does not work:', ...problems.map((problem) => `  ${printableLines(problem)}`)]),
  ].join('\n')
}

function rowOf(name: string, part: Part | undefined, before = '', after = ''): Row {
  if (part === undefined) return ['✗', name, 'not examined']
  if ('problem' in part) return ['–', name, part.problem]
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

const COLOURS = { '✓': 'green', '✗': 'red', '–': 'yellow' } as const

function coloured(mark: Mark): string {
  return mark !== ' ' && process.stdout.isTTY && process.stdout.hasColors() ? styleText(COLOURS[mark], mark) : mark
}
