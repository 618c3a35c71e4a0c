/** Advice as lines of the program. */
import type { Insertion } from './messages.js'

const NAME = String.raw`[A-Za-z_$][\w$]*(?:\.[\w$]+|\[\d+\])*`
const CALL = new RegExp(`^(?:await )?${NAME}\\.(?:wait|finished|synchronize)\\((?:${NAME})?\\)$`)

/** Empty where the advice is no line of code, or tells of streams that have no name in the program. */
export function insertionsIn(advice: string, line: number | undefined): readonly Insertion[] {
  if (line === undefined || !/^Add |has to wait/.test(advice)) return []
  const calls = [...advice.matchAll(/`([^`]+)`/g)].map(([, code]) => code ?? '')
  // `await …` or `….synchronize()`: either will do.
  const wanted = / or `/.test(advice) ? calls.slice(0, 1) : calls
  if (wanted.length === 0 || !wanted.every((code) => CALL.test(code))) return []
  return wanted.map((text) => ({ line, text }))
}

/** The program with the lines put in, each as far to the right as the line behind it. */
export function withInsertions(code: string, insertions: readonly Insertion[]): string {
  const lines = code.split('\n')
  for (const { line, text } of [...insertions].sort((a, b) => b.line - a.line)) {
    // A call that goes on over several lines begins above.
    let at = line - 1
    while (at > 0 && /^\s*[.)\]}]/.test(lines[at] ?? '')) at -= 1
    const indent = /^\s*/.exec(lines[at] ?? '')?.[0] ?? ''
    lines.splice(at, 0, `${indent}${text}`)
  }
  return lines.join('\n')
}
