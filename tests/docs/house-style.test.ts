/** Where the library has two ways, its pages and examples have one, so that readers need not ask what the difference is. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'

/** What is not written, what is, and where it may be, since the page is about just that. */
const STYLE: readonly (readonly [not: RegExp, but: string, except: readonly string[]])[] = [
  [/\bexec\.launch\(/, 'stream.launch(exec)', ['docs/guides/coming-from.md', 'docs/reference/graphs.md']],
  [
    /\bnew Event\(/,
    'stream.record() or device.createEvent()',
    [
      'docs/guides/coming-from.md',
      'docs/guides/foreign-streams.md',
      'docs/reference/errors.md',
      'docs/reference/cuda-runtime.md',
    ],
  ],
  [/\bcreateStream\(\)/, 'new Stream({ device })', ['docs/guides/coming-from.md']],
]

const pagesIn = (folder: string, kind: RegExp): readonly string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => kind.test(name) && !/(^|[\\/])(node_modules|dist)[\\/]/.test(name))
    .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)

test('the docs and examples have one way for one thing', () => {
  const pages = [
    'README.md',
    ...pagesIn('docs', /\.md$/).filter(
      (page) => !page.startsWith('docs/internals/') && page !== 'docs/reference/api.md',
    ),
    ...pagesIn('examples', /\.(ts|mjs)$/),
  ]
  assert.ok(pages.length > 60, `${pages.length} pages`)
  const found = pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8')
    return STYLE.flatMap(([not, but, except]) =>
      not.test(text) && !except.includes(page) ? [`${page}: write ${but}`] : [],
    )
  })
  assert.deepEqual(found, [])
})
