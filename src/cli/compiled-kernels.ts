/** The PTX that a file has in it: a module of `cuda-streams compile`, a bundle, or PTX itself. */

export interface CompiledKernels {
  readonly ptx: string
  /** The names of its kernels. */
  readonly kernels: readonly string[]
  /** What they are compiled for, such as 'sm_75'. */
  readonly arch: string
}

/** In a literal of JavaScript lines end by an escape, too. */
const HEADER =
  /\.version(?:\s|\\t)+\d+\.\d+(?:\s|\\[nr]|\/\/[^\n\\]*)+\.target(?:\s|\\t)+(?<arch>sm_\w+?)(?=[\s,]|\\[nr])/g
const ENTRY = /\.entry\s+([\w$]+)/g
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

export function kernelsIn(text: string): readonly CompiledKernels[] {
  return [...text.matchAll(HEADER)].map(({ index, groups = {} }) => {
    const ptx = literalFrom(text, index)
    return { ptx, kernels: [...ptx.matchAll(ENTRY)].map(([, name = '']) => name), arch: groups['arch'] ?? '' }
  })
}

/** From there to the end of the literal that it is in, without its escapes; to the end of the text if it is in none. */
function literalFrom(text: string, start: number): string {
  let open = start - 1
  // PTX begins with comments, which have no quotes in them.
  while (open >= 0 && !'`\'"'.includes(text[open] ?? '')) open -= 1
  const quote = text[open]
  if (quote === undefined) return text.slice(start)
  let ptx = ''
  for (let at = start; at < text.length && text[at] !== quote; at++) {
    const isEscape = text[at] === '\\'
    if (isEscape) at += 1
    const letter = text[at] ?? ''
    ptx += isEscape ? (ESCAPES[letter] ?? letter) : letter
  }
  return ptx
}
