/** Whether code for the GPU may use a declaration, or only the host does: by its words, and by the names of std in it. */
import { isStandardPart } from './cuda-parts.js'
import type { Audience } from './found-in-sources.js'
import type { TokenReader } from './token-reader.js'

const ON_DEVICE = new Set(['__device__', '__global__', '__constant__', '__managed__', '__shared__'])
/** Names of std that the stand-in headers have (standard-headers.ts). */
const STANDARD =
  /^(?:u?int\w*_t|size_t|ptrdiff_t|min|max|swap|numeric_limits|is_\w+|enable_if\w*|conditional\w*|remove_\w+|integral_constant|bool_constant|pair|make_pair|decay\w*|add_\w+|make_\w?signed\w*|common_type\w*|underlying_type\w*|void_t|conjunction\w*|disjunction\w*|negation\w*|type_identity\w*|rank|extent|alignment_of|clamp|memcpy|memset|true_type|false_type|forward|move|declval|sqrt|abs|pow|exp|log|sin|cos|tan|floor|ceil)$/
/** Whether code for the GPU may use a name of std. */
export const isOfDevice = (name = ''): boolean => STANDARD.test(name) || isStandardPart(name)
/** Names of macros that may mean __device__ or __global__, and are defined in a header that is not read here. */
const MAY_BE_ON_DEVICE = /^[A-Z0-9_]*(?:DEVICE|KERNEL|GLOBAL|CALLABLE|INLINE_HD|HOSTDEV|_HD)[A-Z0-9_]*$/

/** Whether the words of a declaration mark it for the GPU. */
export function isForDevice(words: ReadonlySet<string>): boolean {
  return [...words].some((word) => ON_DEVICE.has(word) || MAY_BE_ON_DEVICE.test(word))
}

/** For whom a function is whose words mark it for the GPU. */
export const audienceOf = (words: ReadonlySet<string>): Audience =>
  words.has('__device__') && !words.has('__host__') ? 'device' : 'both'

/** Whether the declaration of a variable names something of std that only the host has. */
export const usesHost = (texts: readonly string[]): boolean =>
  texts.some((text, index) => text === 'std' && !isOfDevice(texts[index + 2]))

/** Whether a variable is declared as a floating-point number by nothing but these words. */
export const isOfFloats = (type: readonly string[]): boolean =>
  type.some((each) => /^(?:float|double)$/.test(each)) &&
  type.every((each) => /^(?:const|static|float|double)$/.test(each))

/** Whether code for the GPU may use a variable that is not marked for it: its value is known where it is declared. */
export function isConstant(reader: TokenReader, at: number, behind: number, words: ReadonlySet<string>): boolean {
  if (words.has('constexpr') || words.has('constinit')) return true
  if (!words.has('const')) return false
  const texts: string[] = []
  for (let index = at; index < behind; index = reader.closing(index) + 1) {
    const { text } = reader.tokens[index] ?? { text: ';' }
    if (/^[=[{;,]$/.test(text)) break
    texts.push(text)
  }
  // A pointer to something constant is none itself.
  const isPointer = texts.lastIndexOf('*') > texts.lastIndexOf('const')
  const isDefined = reader.tokens.slice(at, behind).some(({ text }) => text === '=' || text === '{')
  return !isPointer && (isDefined || !words.has('extern'))
}
