import { readFileSync } from 'node:fs'
import { defineConfig } from 'vitepress'
import { searched, searchOptions } from './search.mjs'

// Written by ../build.mjs, which has made the pages.
const facts = JSON.parse(readFileSync(new URL('../.cache/facts.json', import.meta.url), 'utf8'))
const { description, version, license } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
)

/** As GitHub makes them, so that one link works in both places. */
function slugify(heading) {
  const words = heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '')
  return words.trim().replace(/\s/g, '-')
}

const kinds = new Map([
  ['classes', 'Classes'],
  ['functions', 'Functions'],
  ['variables', 'Variables'],
  ['interfaces', 'Interfaces'],
  ['type-aliases', 'Types'],
])

/** For each entry point a sidebar that lists its exports, and only names the others: it stands in each page. */
function sidebarsOfReference() {
  const below = ({ items }) =>
    [...kinds].flatMap(([kind, text]) => {
      const ofKind = items.filter((item) => item.kind === kind)
      return ofKind.length === 0 ? [] : [{ text, items: ofKind.map(({ text, link }) => ({ text, link })) }]
    })
  const sidebarFor = (open) =>
    facts.reference.map((entryPoint) => ({
      text: entryPoint.text,
      link: entryPoint.link,
      items: entryPoint === open ? below(entryPoint) : undefined,
    }))
  return Object.fromEntries([
    ['/reference/', sidebarFor()],
    ...facts.reference.map((entryPoint) => [entryPoint.link, sidebarFor(entryPoint)]),
  ])
}

export default defineConfig({
  base: facts.base,
  lang: 'en',
  title: 'cuda-streams',
  description,
  srcDir: '.cache/pages',
  cacheDir: '.cache/vite',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${facts.base}icon.svg` }]],
  markdown: {
    anchor: { slugify },
    languageAlias: { cuda: 'cpp' },
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config(md) {
      // A table that is wider than the page scrolls by itself, also by keyboard.
      md.renderer.rules.table_open = () => '<div class="wide" tabindex="0"><table>\n'
      md.renderer.rules.table_close = () => '</table></div>\n'
      // A block that is only indented scrolls as a fenced one does.
      md.core.ruler.push('indented-blocks', ({ tokens }) => {
        for (const token of tokens) if (token.type === 'code_block') token.type = 'fence'
      })
      // A header without words is none.
      md.core.ruler.push('empty-headers', ({ tokens }) => {
        for (const [at, token] of tokens.entries()) {
          if (token.type !== 'th_open' || tokens[at + 1]?.content !== '') continue
          for (const one of [token, tokens[at + 2]]) one.tag = 'td'
        }
      })
    },
  },
  transformPageData(page) {
    page.filePath = page.frontmatter.source ?? page.filePath
  },
  // The index of the search is larger, and is loaded when it is opened.
  vite: { build: { chunkSizeWarningLimit: 1500 } },
  themeConfig: {
    nav: [
      { text: 'Tutorials', link: '/tutorials/first-stream', activeMatch: '/tutorials/' },
      { text: 'Documentation', link: '/contents' },
      { text: 'Reference', link: '/reference/', activeMatch: '/reference/' },
      ...(facts.playground ? [{ text: 'Playground', link: '/playground/', target: '_self' }] : []),
      { text: 'Source', link: facts.repository },
    ],
    sidebar: { '/': facts.sidebar, ...sidebarsOfReference() },
    outline: [2, 3],
    search: {
      provider: 'local',
      options: { _render: searched, miniSearch: { searchOptions } },
    },
    // On pages without a sidebar: the home page.
    footer: {
      message: [
        `<a href="${facts.repository}/blob/main/LICENSE">${license} licence</a>`,
        `<a href="${facts.repository}">Repository</a>`,
        `<a href="${facts.base}changelog.html">Version ${version}, changes</a>`,
        `<a href="${facts.base}contributing.html">Contributing</a>`,
        `<a href="${facts.base}security.html">Security</a>`,
      ].join(' · '),
    },
    editLink: { pattern: `${facts.repository}/blob/main/:path`, text: 'This page in the repository' },
  },
})
