// The pages, as the generator reads them: copies of the repository's Markdown whose links lead to pages of the site, or to the
// repository where a file is no page.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, extname, join, posix } from 'node:path'
import { GROUPS, pageOf } from './contents.mjs'

const IMAGES = new Set(['.svg', '.png'])

/** Writes all pages but the reference, whose exports are given as `path by "entry point#name"`; returns the sidebar. */
export function writePages({ root, folder, repository, reference, playground }) {
  const named = new Set(GROUPS.flatMap(({ files }) => files))
  const others = readdirSync(join(root, 'docs'), { recursive: true })
    .map((name) => `docs/${name}`)
    .filter((file) => file.endsWith('.md') && !named.has(file))
  const groups = GROUPS.map((group) =>
    group.text === 'Guides' ? { ...group, files: [...group.files, ...others] } : group,
  )
  const files = groups.flatMap((group) => group.files)
  const pages = new Map(files.map((file) => [file, pageOf(file)]))
  const titles = new Map()
  const site = { root, folder, repository, pages, playground }
  for (const [file, page] of pages) {
    const text = readFileSync(join(root, file), 'utf8')
    titles.set(file, titleOf(text))
    const body = mapText(text, (part) => withLinks(part, { ...site, file, page }))
    write(join(folder, `${page}.md`), file === 'docs/reference/api.md' ? withReference(body, reference) : body, {
      source: file,
    })
  }
  writeFront(site)
  return groups.map(({ text, files }) => ({
    text,
    items: files.map((file) => ({
      text: file === 'README.md' ? 'README' : titles.get(file),
      link: `/${pages.get(file)}`,
    })),
  }))
}

/** The home page, whose links are written as in the README. It is not searched: it only leads to others. */
function writeFront({ playground, ...site }) {
  const frame =
    '<iframe src="./playground/" title="The playground: a program that runs in this page" loading="lazy"></iframe>'
  const text = readFileSync(join(site.root, 'site', 'home.md'), 'utf8')
  const live = text
    .replace('<!-- the playground -->', playground ? frame : '')
    .replace(/^.*href="\.\/playground\/".*\n/m, playground ? '$&' : '')
  const body = mapText(live, (part) => withLinks(part, { ...site, file: 'README.md', page: 'index' }))
  const bare = { sidebar: false, aside: false, prev: false, next: false, editLink: false, outline: false }
  write(join(site.folder, 'index.md'), body, { source: 'site/home.md', search: false, pageClass: 'front', ...bare })
}

function write(path, body, frontmatter) {
  mkdirSync(dirname(path), { recursive: true })
  const head = Object.entries(frontmatter).map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
  writeFileSync(path, `---\n${head.join('\n')}\n---\n\n${body}`)
}

export function titleOf(markdown) {
  return /^# (.*)$/m.exec(markdown)?.[1]?.replaceAll('`', '')
}

/** The Markdown with `change` made to all that is neither a fenced block nor between backticks. */
export function mapText(markdown, change) {
  const parts = markdown.split(/(^```[\s\S]*?^```|`[^`\n]+`)/m)
  return parts.map((part, at) => (at % 2 === 1 ? part : change(part))).join('')
}

function withLinks(text, { file, ...site }) {
  // Pages of the package name what is not packed by the repository's address.
  const ours = `${site.repository}/blob/main/`
  return text
    .replace(/\]\(([^)\s]+)\)/g, (all, target) => {
      if (target.startsWith(ours)) return `](${linkTo(target.slice(ours.length), { ...site, file: '' })})`
      return /^([a-z]+:|#)/.test(target) ? all : `](${linkTo(target, { ...site, file })})`
    })
    .replace(/ (src|srcset)="([^":]+\.svg)"/g, (_, name, target) => ` ${name}="${linkTo(target, { ...site, file })}"`)
}

function linkTo(target, { root, folder, repository, pages, file, page }) {
  const [path, anchor] = target.split('#')
  const found = posix.normalize(posix.join(posix.dirname(file), path)).replace(/\/$/, '')
  const behind = anchor === undefined ? '' : `#${anchor}`
  if (!existsSync(join(root, found))) throw new Error(`${file}: ${target} is not there`)
  if (pages.has(found)) return `${relative(page, pages.get(found))}.md${behind}`
  if (IMAGES.has(extname(found))) {
    copyFileSync(join(root, found), join(folder, posix.basename(found)))
    return relative(page, posix.basename(found))
  }
  const kind = statSync(join(root, found)).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${found}${behind}`
}

function relative(from, to) {
  const path = posix.relative(posix.dirname(from), to)
  return path.startsWith('.') ? path : `./${path}`
}

/** The names of exports that begin an item, and those of types, lead to their pages of the reference. */
function withReference(markdown, reference) {
  let entryPoint
  const lines = markdown.split('\n').map((line) => {
    entryPoint = /^## (.*)$/.exec(line)?.[1] ?? entryPoint
    const names = /^(?:- `\w+`:|Types: .*$)/.exec(line)?.[0]
    if (names === undefined) return line
    const linked = names.replace(/`(\w+)`/g, (code, name) => {
      const page = reference.get(`${entryPoint}#${name}`)
      if (page === undefined)
        throw new Error(`docs/reference/api.md names ${name} of ${entryPoint}, which the reference does not have`)
      return `[${code}](../${page}.md)`
    })
    return linked + line.slice(names.length)
  })
  return lines.join('\n')
}

export function emptyFolder(folder) {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
}
