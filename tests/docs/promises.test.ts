/** The pages and doc comments show a promise with `await` or `.then`: no `void` throws it away, and none is left floating. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'
import { type Block, parsePage, readExamples, readPages } from './guide-pages.js'

const skip = existsSync(join(root, 'README.md')) ? false : 'README.md and the sources are not here'

/** `void` in front of a call, which is no declaration of C. */
const VOID = /\bvoid [\w$.]+\.[\w$]+\(/
/** `exec.upload(stream)` of a graph returns no promise. */
const FLOATING = /^\s*(?!exec\.)[\w$.]+\.(?:upload|download)\((?!.*\)\s*\.then\()/
const ON_NEXT_LINE = /^\s*\.then\(/

/** Each promise of a block that is thrown away, as "path:line: code". */
function thrownAway({ page, line, code }: Block): readonly string[] {
  const lines = code.split('\n')
  return lines.flatMap((text, at) => {
    const isFloating = FLOATING.test(text) && !ON_NEXT_LINE.test(lines[at + 1] ?? '')
    return VOID.test(text) || isFloating ? [`${page}:${line + at}: ${text.trim()}`] : []
  })
}

describe('promises in the docs', () => {
  it('are found where they are thrown away', () => {
    const lines = ['void stream.upload(x, y)', 'stream.upload(x, y)', '  stream.download(x)', 'void a.b.finished()']
    const right = [
      'await stream.upload(x, y)',
      'stream.upload(x, y).then(next)',
      'exec.upload(stream)',
      'void f(int n)',
    ]
    const page = (code: readonly string[]): string => ['```ts', ...code, '```'].join('\n')
    const found = (code: readonly string[]): readonly string[] =>
      parsePage('a.md', page(code)).blocks.flatMap(thrownAway)
    assert.deepEqual(
      found(lines),
      lines.map((text, at) => `a.md:${at + 2}: ${text.trim()}`),
    )
    assert.deepEqual(found([...right, 'stream.upload(x, y)', '  .then(next)']), [])
  })

  it('are awaited, or have a .then', { skip }, () => {
    const pages = readPages()
    const blocks = [...pages.flatMap((page) => page.blocks), ...readExamples()]
    const spans = pages.flatMap(({ path, codeSpans }) =>
      codeSpans.filter(({ code }) => VOID.test(code)).map(({ line, code }) => `${path}:${line}: ${code}`),
    )
    assert.deepEqual([...blocks.flatMap(thrownAway), ...spans], [])
  })
})
