/** Another machine than this one, as far as its NVIDIA driver goes: for a process that is told so by its environment. */

export interface Machine {
  readonly platform?: NodeJS.Platform
  readonly arch?: NodeJS.Architecture
  readonly musl?: boolean
  /** The files of a driver that are there, with what they contain, beside what tests have made. */
  readonly files?: Readonly<Record<string, string>>
  /** The file of the native layer that the program loads. Default: that of this build. */
  readonly native?: string
}

export const VARIABLE = 'FAKE_MACHINE'
/** The folder of what tests have compiled. */
export const C_LIBRARIES = 'c-libraries'

/** To be imported by a worker thread first: an eval'd one does not import what NODE_OPTIONS names. */
export const preload = new URL('./machine-preload.js', import.meta.url).href

/** The environment of a process on that machine; without anything it is one without an NVIDIA driver. */
export const onMachine = (machine: Machine = {}): Readonly<Record<string, string>> => ({
  [VARIABLE]: JSON.stringify(machine),
  NODE_OPTIONS: `--import ${preload}`,
  BUN_OPTIONS: `--import ${preload}`,
})
