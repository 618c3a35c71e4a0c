/**
 * Tells which parameters of kernels are floats in a text of PTX, and which are integers. A signature that says the other compiles, loads and launches, and
 * the kernel computes with bits that mean another number: only the text shows it.
 */
import { invalidValue } from '../base/errors.js'
import type { DescribeParameter, PassedType } from './kernel-driver.js'

type Kind = 'float' | 'integer'

/** The types that the text gives to the parameters of its kernels, by the name of the kernel; undefined where any bits may be meant. */
export type PtxParameterTypes = ReadonlyMap<string, readonly (string | undefined)[]>

/** `.b32` says nothing, and a half is passed as its bits. */
const kindOf = (type: string | number | undefined): Kind | undefined =>
  /^f(32|64)$/.test(String(type)) ? 'float' : /^[ius](32|64)$/.test(String(type)) ? 'integer' : undefined

const COMMENT = /\/\/.*|\/\*[\s\S]*?\*\//g
const ENTRY = /\.entry\s+([\w$%]+)\s*\(([^)]*)\)/g
const PARAMETER = /\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\b[^[]*?([\w$%]+)\s*(\[.*)?$/
const LOAD = /\bld\.param[\w.:]*\.(\w+)\s[^;[]*\[\s*([\w$%]+)\s*(?:\+\s*0\s*)?\]/g

/** Whether an image may be PTX: it begins with a comment, a directive or white space, as no machine code does. */
export const mayBePtx = (image: Uint8Array): boolean => /[\s./]/.test(String.fromCharCode(image[0] ?? 0))

export function ptxParameterTypes(ptx: string): PtxParameterTypes {
  const text = ptx.replace(COMMENT, ' ')
  // Text that somebody wrote may declare `.u32` and load `.f32`: then the code does not say which of the two is meant.
  const loaded = new Map<string, Set<Kind | undefined>>()
  for (const [, type, name = ''] of text.matchAll(LOAD)) {
    loaded.set(name, (loaded.get(name) ?? new Set()).add(kindOf(type)))
  }
  const typeOf = (parameter: string): string | undefined => {
    const [, type, name = '', isArray] = PARAMETER.exec(parameter.trim()) ?? []
    const kind = kindOf(type)
    if (kind === undefined || isArray !== undefined) return undefined
    return loaded.get(name)?.has(kind === 'float' ? 'integer' : 'float') === true ? undefined : type
  }
  const types = new Map<string, readonly (string | undefined)[]>()
  for (const [, name = '', list = ''] of text.matchAll(ENTRY)) types.set(name, list.split(',').map(typeOf))
  return types
}

/** Whether a signature says a float where the code has an integer, or an integer where it has a float. */
export const contradicts = (type: PassedType | undefined, inCode: string | undefined): boolean => {
  const [said, has] = [kindOf(type), kindOf(inCode)]
  return said !== undefined && has !== undefined && said !== has
}

/** Throws ERR_INVALID_ARG_VALUE for a signature that says an integer where the code has a float of as many bits, or the reverse. */
export function checkParameterKinds(
  kernel: string,
  types: readonly PassedType[],
  inCode: readonly (string | undefined)[],
  describe: DescribeParameter = (index) => `argument ${index}`,
): void {
  const index = types.findIndex((type, at) => contradicts(type, inCode[at]))
  const type = inCode[index]
  if (type === undefined) return
  const bits = `struct({ bits: '${type.endsWith('64') ? 'u64' : 'u32'}' })`
  const other = kindOf(type) === 'float' ? 'an integer' : 'a float'
  throw invalidValue(
    `The signature of kernel '${kernel}' has ${other} for what is .${type} in the code: ${describe(index)}: give it the type that it has in the source, or, to pass such bits on purpose, ${bits}`,
  )
}
