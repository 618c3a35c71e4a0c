/** The compute capability of the simulated GPU, and the PTX that the assembler of its driver accepts. */

import { COMPUTE_CAPABILITIES } from '../foundation/base/environment-variables.js'
import { isLater } from '../foundation/base/versions.js'

export interface ComputeCapability {
  readonly major: number
  readonly minor: number
}

/** The compute capability of an H200. */
export const DEFAULT_COMPUTE_CAPABILITY: ComputeCapability = { major: 9, minor: 0 }

/** The last version of PTX that a driver for CUDA 13.0 accepts. */
export const NEWEST_PTX = '9.0'

/** The targets that the assembler of CUDA 13.0 accepts, and the first version of PTX that has each of them. */
const TARGETS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['10', '11', '12', '13', '20', '21', '30', '32', '35', '37'].map((each) => [each, '1.0'])),
  ...{ 50: '4.0', 52: '4.1', 53: '4.2', 60: '5.0', 61: '5.0', 62: '5.0', 70: '6.0', 72: '6.1', 75: '6.3' },
  ...{ 80: '7.0', 82: '6.2', 86: '7.1', 87: '7.4', 88: '7.3', 89: '7.8', 90: '7.8', '90a': '8.0' },
  ...{ 100: '8.6', '100a': '8.6', '100f': '8.8', 101: '8.6', '101a': '8.6', '101f': '8.8' },
  ...{ 103: '8.8', '103a': '8.8', '103f': '8.8', 110: '9.0', '110a': '9.0', '110f': '9.0' },
  ...{ 120: '8.7', '120a': '8.7', '120f': '8.8', 121: '8.8', '121a': '8.8', '121f': '8.8' },
}

/** Reads a compute capability; returns undefined for a text that is none. */
export function parseComputeCapability(text: string): ComputeCapability | undefined {
  if (!COMPUTE_CAPABILITIES.includes(text)) return undefined
  const [major = 0, minor = 0] = text.split('.').map(Number)
  return { major, minor }
}

/** The reason why a driver's assembler refuses PTX of this version for this target; undefined if it accepts it. */
export function whyTargetIsRefused(version: string, target: string, device: ComputeCapability): string | undefined {
  const least = TARGETS[target.replace(/^sm_/, '')]
  const { major, minor } = device
  const own = `this device has compute capability ${major}.${minor}`
  const wayOut = `compile it for sm_${major}${minor} or an earlier one; simulate({ computeCapability }) or CUDA_STREAMS_SIM_COMPUTE_CAPABILITY simulates another GPU`
  if (least === undefined)
    return `The code is for ${target}, which drivers for CUDA 13.0 do not know, and ${own}: ${wayOut}`
  const [, digits = '', kind = ''] = /^sm_(\d+)([af]?)$/.exec(target) ?? []
  const [ofMajor, ofMinor] = [Number(digits.slice(0, -1)), Number(digits.slice(-1))]
  const isEarlier = ofMajor < major || (ofMajor === major && ofMinor <= minor)
  const fits = kind === 'a' ? ofMajor === major && ofMinor === minor : isEarlier && (kind === '' || ofMajor === major)
  if (!fits) return `The code is for ${target}, and ${own}: ${wayOut}`
  if (isLater(least, version))
    return `The code is PTX ${version}, which does not have ${target} yet: that came with PTX ${least}`
  return undefined
}
