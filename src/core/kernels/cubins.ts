/** Machine code that was made before for some architectures, and which of it a device runs. */
import { checkText, isObject } from '../../foundation/base/arguments.js'
import { invalidType, invalidValue } from '../../foundation/base/errors.js'

export type ComputeCapability = { readonly major: number; readonly minor: number }

const ARCHITECTURE = /^sm_(?<major>\d{1,2})(?<minor>\d)(?<suffix>[af]?)$/

export const isArchitecture = (text: string): boolean => ARCHITECTURE.test(text)

/** An ELF file begins so in base64. */
const CODE = /^f0VMR[A-Za-z0-9+/]*={0,2}$/

/** @throws ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE */
export function readCubins(given: unknown, name: string): ReadonlyMap<string, string> {
  if (!isObject(given)) throw invalidType(name, "an object such as { sm_90: 'f0VMR…' }, with base64", given)
  return new Map(
    Object.entries(given).map(([architecture, code]) => {
      if (!isArchitecture(architecture))
        throw invalidValue(`${name} has code for '${architecture}': name an architecture such as sm_90`)
      const text = checkText(code, `${name}.${architecture}`, 'a cubin as base64')
      if (!CODE.test(text) || text.length % 4 !== 0)
        throw invalidValue(
          `${name}.${architecture} must be a cubin as base64: a file's is readFileSync(file, 'base64')`,
        )
      return [architecture, text]
    }),
  )
}

/** GPUs on one chip with a processor: code of others does not run on them, nor theirs on others, also within one major version. */
const INTEGRATED = new Set(['5.3', '6.2', '7.2', '8.7'])

/** Does code for this architecture run on the GPU? CUDA wants the same major version, and no later minor one. */
function runsOn(architecture: string, { major, minor }: ComputeCapability): boolean {
  const { major: codeMajor, minor: codeMinor, suffix } = ARCHITECTURE.exec(architecture)?.groups ?? {}
  if (Number(codeMajor) !== major || Number(codeMinor) > minor) return false
  if (Number(codeMinor) === minor) return true
  return suffix !== 'a' && !INTEGRATED.has(`${codeMajor}.${codeMinor}`) && !INTEGRATED.has(`${major}.${minor}`)
}

const numberOf = (architecture: string): number => Number(/\d+/.exec(architecture)?.[0])

/** The latest that the device runs; of those for one number that with a suffix, which may use more of the device. */
export function architectureFor(architectures: Iterable<string>, device: ComputeCapability): string | undefined {
  const [best] = [...architectures]
    .filter((architecture) => runsOn(architecture, device))
    .sort((a, b) => numberOf(b) - numberOf(a) || b.length - a.length)
  return best
}

export function cubinFor(cubins: ReadonlyMap<string, string>, device: ComputeCapability): string | undefined {
  const architecture = architectureFor(cubins.keys(), device)
  return architecture === undefined ? undefined : cubins.get(architecture)
}
