/** What `npm pack` packs holds together: its links, its entry points, and its examples, which print what their READMEs say. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { parsePage } from '../docs/guide-pages.js'
import { openPython } from '../helpers/python.js'
import { root } from '../helpers/root.js'
import { installPacked, npmUnavailable, packInto, runIn } from './packed.js'

/** Those that are projects of their own are run by scripts/examples.mjs. */
const EXAMPLES = readdirSync(join(root, 'examples'), { withFileTypes: true }).filter(
  (entry) => entry.isDirectory() && !existsSync(join(root, 'examples', entry.name, 'package.json')),
)
/** What differs from machine to machine. */
const plain = (text: string): string => text.trim().replace(/queued in \d+ ms/, 'queued in 0 ms')

describe('the tarball', { skip: npmUnavailable() }, () => {
  const project = mkdtempSync(join(tmpdir(), 'cuda-streams-tarball-'))
  const own = join(project, 'node_modules', 'cuda-streams')
  let packed: readonly string[] = []
  after(() => rmSync(project, { recursive: true, force: true }))

  before(() => {
    // For the examples with Python; the others do without.
    installPacked(project, packInto(project), ['koffi', '@koromix'])
    packed = readdirSync(own, { encoding: 'utf8', recursive: true }).map((path) => path.replaceAll('\\', '/'))
  })

  it('has every file that its README and package.json name', () => {
    const { links } = parsePage('README.md', readFileSync(join(own, 'README.md'), 'utf8'))
    const named = links.map(({ target }) => target.replace(/#.*/, '')).filter((t) => t !== '' && !t.includes(':'))
    // What is for maintainers is not packed: on npm's page these links lead to the repository.
    const isInside = (path: string): boolean => path.startsWith('docs/internals/')
    assert.deepEqual(packed.filter(isInside), [])
    const targets = named.filter((path) => !isInside(path))
    assert.ok(targets.length > 10, 'the README has links')
    const manifest = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as { readonly exports: object }
    const entries = [...JSON.stringify(manifest.exports).matchAll(/"\.\/([^"]+\.\w+)"/g)].map(([, path = '']) => path)
    assert.ok(entries.length > 10, 'package.json has entry points')
    const absent = [...targets, ...entries].filter((path) => !existsSync(join(own, path)))
    assert.deepEqual(absent, [])
  })

  it('has what its docs link to, or they name the repository', () => {
    const pages = packed.filter((path) => /^(?:docs|examples)\/.*\.md$/.test(path))
    assert.ok(pages.length > 30, `${pages.length} pages`)
    const absent = pages.flatMap((page) =>
      parsePage(page, readFileSync(join(own, page), 'utf8')).links.flatMap(({ line, target }) => {
        const path = target.replace(/#.*/, '')
        const isThere = path === '' || path.includes(':') || existsSync(join(own, normalize(join(dirname(page), path))))
        return isThere ? [] : [`${page}:${line}: ${target}`]
      }),
    )
    assert.deepEqual(absent, [])
  })

  it('has a README of at most 150 lines', () => {
    const lines = readFileSync(join(own, 'README.md'), 'utf8').trimEnd().split('\n')
    assert.ok(lines.length <= 150, `${lines.length} lines`)
  })

  it('names no source map, and has none', () => {
    const naming = packed.filter(
      (path) =>
        /\.(js|d\.ts|map)$/.test(path) &&
        /sourceMappingURL=|^\{"version":3/.test(readFileSync(join(own, path), 'utf8')),
    )
    assert.deepEqual(naming, [])
  })

  it('has no tests, benchmarks or sources of TypeScript but those of examples', () => {
    assert.deepEqual(
      packed.filter((path) =>
        /^(dist\/(tests|bench)|tests|bench|src|scripts)\/|^dist\/examples\/.*\.d\.ts$/.test(path),
      ),
      [],
    )
  })

  for (const { name } of EXAMPLES) {
    it(`has the example ${name}, which prints what its README says`, (context) => {
      const text = readFileSync(join(own, 'examples', name, 'README.md'), 'utf8')
      const command = /```sh\nCUDA_STREAMS_DRIVER=sim node (.*)\n```/.exec(text)?.[1]
      const expected = /```text\n(.*?)```/s.exec(text)?.[1]
      assert.ok(command !== undefined && expected !== undefined, 'the README has a command and its output')
      const args = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word = '']) => quoted ?? word)
      const python = text.includes('libpython') ? openPython() : undefined
      if (typeof python === 'string') return context.skip(python)
      const { stdout, stderr } = runIn(own, process.execPath, ...args)
      // Which of the things that it needs is missing depends on the machine.
      const skipped = /^skipped: .*/
      assert.equal(plain(stdout + stderr).replace(skipped, 'skipped'), plain(expected).replace(skipped, 'skipped'))
    })
  }
})
