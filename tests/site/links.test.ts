/** Every link of the built site leads somewhere: to a file and its anchor, or to a file of the repository. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'
import { filesOf, site, siteUnavailable } from './built-site.js'

const skip = siteUnavailable() ?? false
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

const REPOSITORY = /^https:\/\/github\.com\/cuda-streams\/cuda-streams(?:\/(?:blob|tree)\/main\/([^#]*))?/

interface Page {
  readonly links: readonly string[]
  readonly ids: ReadonlySet<string>
}

const unescaped = (text: string): string =>
  text
    .replace(/&quot;/g, '"')
    .replace(/&#39;/g, "'")
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&amp;/g, '&')

export function parse(html: string): Page {
  const values = (name: string): readonly string[] =>
    [...html.matchAll(new RegExp(`<[a-z][^>]*?\\s${name}="([^"]*)"`, 'g'))].map(([, value = '']) => unescaped(value))
  return { links: [...values('href'), ...values('src'), ...values('srcset')], ids: new Set(values('id')) }
}

/** What is wrong with the links of a page, given the files of the site and its pages. */
export function brokenLinks(
  path: string,
  { links }: Page,
  files: ReadonlySet<string>,
  pages: ReadonlyMap<string, Page>,
): readonly string[] {
  return links.flatMap((link) => {
    if (/^(?:data|mailto):/.test(link)) return []
    if (/^https?:/.test(link)) {
      const source = REPOSITORY.exec(link)?.[1]
      return source === undefined || existsSync(join(root, decodeURIComponent(source))) ? [] : [`${path}: ${link}`]
    }
    const [before = '', anchor = ''] = link.split('#')
    const named = posix.join(posix.dirname(`/${path}`), '.')
    const absolute = before === '' ? `/${path}` : before.startsWith('/') ? before : posix.join(named, before)
    const file = `${absolute}${absolute.endsWith('/') ? 'index.html' : ''}`.slice(1)
    if (!files.has(file)) return [`${path}: ${link} is not there`]
    const id = decodeURIComponent(anchor)
    return id === '' || pages.get(file)?.ids.has(id) === true ? [] : [`${path}: ${link} has no such anchor`]
  })
}

it('a link that leads nowhere is found', () => {
  const page = parse(
    '<a class="x" href="b.html#c">b</a><a href="#no"></a><img src="/gone.svg"><source srcset="/no.svg"><h2 id="d"></h2>',
  )
  const pages = new Map([
    ['a.html', page],
    ['b.html', parse('<h1 id="c">')],
  ])
  const source = parse('<a href="https://github.com/cuda-streams/cuda-streams/blob/main/src/gone.ts#L1">')
  const files = new Set(pages.keys())
  assert.deepEqual(brokenLinks('a.html', page, files, pages), [
    'a.html: #no has no such anchor',
    'a.html: /gone.svg is not there',
    'a.html: /no.svg is not there',
  ])
  assert.equal(brokenLinks('a.html', source, files, pages).length, 1)
})

describe('the site', { skip }, () => {
  if (skip !== false) return
  const files = filesOf()
  const ours = files.filter((path) => path.endsWith('.html'))
  const pages = new Map(ours.map((path) => [path, parse(readFileSync(join(site, path), 'utf8'))]))

  it('has a page for each guide', () => {
    const guides = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('.md') && name !== 'index.md',
    )
    for (const name of guides)
      assert.ok(pages.has(name.replace(/^reference/, 'look-up').replace(/\.md$/, '.html')), name)
  })

  it('has a page for each export, to which docs/reference/api.md leads there', () => {
    const reference =
      pages.get('look-up/api.html')?.links.filter((link) => link.includes('reference/cuda-streams/')) ?? []
    const exported = new Set(reference.map((link) => link.replace(/^[./]*/, '')))
    const made = ours.filter((path) => /^reference\/cuda-streams\/.*(?<!\/index)\.html$/.test(path))
    assert.ok(made.length > 100, `${made.length} pages`)
    assert.deepEqual(
      made.filter((path) => !exported.has(path)),
      [],
    )
  })

  it('has no link that leads nowhere', () => {
    const all = new Set(files)
    const broken = [...pages].flatMap(([path, page]) => brokenLinks(path, page, all, pages))
    assert.deepEqual(broken, [])
  })

  it('takes nothing from another host', () => {
    const texts = files.filter((path) => /\.(?:html|css)$/.test(path))
    for (const path of texts) {
      const text = readFileSync(join(site, path), 'utf8')
      const foreign = text.match(
        /(?:<(?:script|img|iframe|link)[^>]*(?:src|href)=|url\()["']?(?:https?:)?\/\/[^"')>]*/g,
      )
      assert.deepEqual(foreign, null, path)
    }
  })
})
