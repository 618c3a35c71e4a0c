/** What a newcomer looks for is found first: what teaches before what is looked up, and what is inside last. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { root } from '../helpers/root.js'
import { site, siteUnavailable } from './built-site.js'

/** What is typed, and the page that comes first, with the section where the page has several answers. */
const QUERIES: readonly (readonly [query: string, first: string])[] = [
  ['install', '/tutorials/first-stream.html#install'],
  ['share a stream with PyTorch', '/guides/python.html'],
  ['pinned memory', '/concepts/memory.html'],
  ['deadlock callback', '/look-up/errors.html#waiting-and-never-forever'],
  ['Next.js', '/guides/requirements.html#frameworks'],
  ['wait for event', '/concepts/events.html'],
  ['cuda graph', '/concepts/graphs.html'],
  ['sanitizer', '/guides/sanitizer.html'],
  ['without a GPU', '/guides/testing.html'],
  ['Error ERR_DEADLOCK', '/look-up/errors.html#which-error'],
  ['docker', '/guides/deployment.html#docker'],
  ['how do I run tests in CI', '/guides/testing.html'],
  ['out of memory', '/look-up/memory.html#out-of-memory'],
  ['two streams overlap', '/tutorials/overlap.html'],
  // A name that is written whole is that member's.
  ['launchHostFunc', '/reference/cuda-streams/classes/Stream.html#launchhostfunc'],
  ['StreamOptions', '/reference/cuda-streams/interfaces/StreamOptions.html#interface-streamoptions'],
]

interface Found {
  readonly id: string
}

interface Index {
  search(query: string): readonly Found[]
}

const skip = siteUnavailable() ?? false
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

/** The index as the page has it, with the options of the search box. */
async function openIndex(): Promise<Index> {
  const ofSite = createRequire(join(root, 'site', 'node_modules', 'vitepress', 'package.json'))
  const loaded: { readonly default: { loadJSON(json: string, options: object): Index } } = await import(
    pathToFileURL(ofSite.resolve('minisearch')).href
  )
  const chunks = join(site, 'assets', 'chunks')
  const name = readdirSync(chunks).find((each) => each.startsWith('@localSearchIndex'))
  assert.ok(name !== undefined, 'the site has an index')
  const chunk: { readonly default: string } = await import(pathToFileURL(join(chunks, name)).href)
  const { searchOptions }: { readonly searchOptions: object } = await import(
    pathToFileURL(join(root, 'site', '.vitepress', 'search.mjs')).href
  )
  // Those of VitePress's search box, which ours are added to.
  const ofBox = { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } }
  const fields = ['title', 'titles', 'text']
  return loaded.default.loadJSON(chunk.default, {
    fields,
    storeFields: ['title', 'titles'],
    searchOptions: { ...ofBox, ...searchOptions },
  })
}

const KINDS = [/^\/(?:tutorials|guides|concepts)\//, /^\/(?:look-up|readme|examples|reference)\b/, /^\//]
const kindOf = (id: string): number => KINDS.findIndex((kind) => kind.test(id))

describe('a search', { skip }, () => {
  for (const [query, first] of QUERIES) {
    it(`for '${query}' finds ${first} first`, async () => {
      const found = (await openIndex()).search(query).map(({ id }) => id)
      assert.ok(found[0]?.startsWith(first), found.slice(0, 5).join('\n'))
    })
  }

  it('finds what is inside last: no such page is among the first ten where guides and the reference have as many', async () => {
    const index = await openIndex()
    for (const query of ['stream', 'memory', 'event', 'graph', 'kernel', 'timeline', 'pinned', 'capture']) {
      const kinds = index.search(query).map(({ id }) => kindOf(id))
      assert.ok(kinds.filter((kind) => kind < 2).length >= 10, query)
      assert.deepEqual(
        kinds.slice(0, 10).filter((kind) => kind === 2),
        [],
        query,
      )
    }
  })
})
