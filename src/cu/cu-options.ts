/** The options of compilations of CUDA C++. */

import { isArchitecture } from '../core/kernels/cubins.js'
import { checkArray, checkText, nearest, readProperties } from '../foundation/base/arguments.js'
import { invalidValue } from '../foundation/base/errors.js'
import { nvrtcVersion } from '../foundation/native/nvrtc.js'

/** The options of `compileCu()`. */
export interface CuOptions {
  /**
   * The lowest architecture that the kernels are for, such as 'compute_90'; they run on it and on later ones. Default: 'compute_75',
   * which every GPU since 2018 runs.
   */
  readonly arch?: string | undefined
  /**
   * Architectures such as 'sm_90' for which the file is compiled to machine code, too: GPUs of that major compute capability, and no
   * lower minor one, take it, and their driver has nothing to compile. Default: none.
   */
  readonly cubins?: readonly string[] | undefined
  /** More options for NVRTC, such as '--use_fast_math', '-I include' or '-DTILE=32'. Default: none. */
  readonly options?: readonly string[] | undefined
}

const DEFAULT_ARCH = 'compute_75'

/** Options whose value may be the next one. */
const NEED_VALUE =
  /^(?:-I|-D|-U|-include|-opt-info|--include-path|--define-macro|--undefine-macro|--pre-include|--maxrregcount)$/
const ARCHITECTURE = /^(?:-arch|--gpu-architecture)(?:=|$)/

/** Options that are often misspelt, or are those of nvcc. */
const KNOWN =
  '--use_fast_math --device-debug --generate-line-info --maxrregcount --std --define-macro --include-path --ftz --fmad --prec-div --prec-sqrt --extra-device-vectorization --restrict --device-int128 --default-device'.split(
    ' ',
  )

export const CU_OPTIONS = ['arch', 'cubins', 'options'] as const

/** @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE */
export function readCuOptions(options: CuOptions): {
  readonly arch: string
  readonly cubins: readonly string[]
  readonly more: readonly string[]
} {
  const given = readProperties(options, CU_OPTIONS, 'options')
  const cubins = checkArray(given.cubins ?? [], 'options.cubins', "an array of texts such as 'sm_90'").map(
    (each, index) => {
      const text = checkText(each, `options.cubins[${index}]`, "a text such as 'sm_90'")
      if (isArchitecture(text)) return text
      throw invalidValue(`options.cubins[${index}] is '${text}': it must be such as 'sm_80' or 'sm_90'`)
    },
  )
  const more = checkArray(given.options ?? [], 'options.options', 'an array of texts').map((option, index) =>
    checkText(option, `options.options[${index}]`, 'a text'),
  )
  const second = more.find((option) => ARCHITECTURE.test(option))
  if (second !== undefined)
    throw invalidValue(`options.options has '${second}': the architecture is options.arch, such as 'compute_90'`)
  const last = more.at(-1)
  if (last !== undefined && NEED_VALUE.test(last))
    throw invalidValue(`options.options ends with '${last}', which needs a value: add it as the next text`)
  return { arch: architecture(given.arch ?? DEFAULT_ARCH), cubins: [...new Set(cubins)], more }
}

function architecture(given: unknown): string {
  const text = checkText(given, 'options.arch', "a text such as 'compute_75'")
  const [, number] = /^(?:compute_|sm_)?(\d{2,3}[af]?)$/.exec(text) ?? []
  if (number === undefined)
    throw invalidValue(`options.arch is '${text}': it must be such as 'compute_75' or 'compute_90'`)
  return `compute_${number}`
}

/** What NVRTC says of an option that it refuses, as the library says it; undefined where it says another thing. */
export function refusedOption(log: string, architecture: string): Error | undefined {
  const nvrtc = `NVRTC ${nvrtcVersion()}`
  if (/invalid value for --gpu-architecture/.test(log)) {
    return invalidValue(
      architecture.startsWith('sm_')
        ? `options.cubins has '${architecture}', for which ${nvrtc} cannot compile: leave it out, since such GPUs run the PTX; for newer ones install a newer NVRTC`
        : `options.arch is '${architecture}', for which ${nvrtc} cannot compile: name another, such as 'compute_75', which runs on later GPUs too; for newer ones install a newer NVRTC`,
    )
  }
  const [, option] = /unrecognized option (\S+) found/.exec(log) ?? []
  if (option === undefined) return undefined
  return invalidValue(`options.options has '${option}', which ${nvrtc} does not know: ${insteadOf(option)}`)
}

function insteadOf(option: string): string {
  const [name = option] = option.split('=')
  if (KNOWN.includes(name)) return 'other versions do: leave it out, or install a newer NVRTC'
  const meant = nearest(name, KNOWN)
  return meant === undefined ? "not all of nvcc's options are NVRTC's: leave it out" : `did you mean '${meant}'?`
}
