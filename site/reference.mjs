// The API reference: Markdown from the doc comments of each entry point, by TypeDoc. It does not run on TypeScript 7, which the
// library is compiled with, so a TypeScript 6 stands in the package.json of this folder.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, posix, sep } from 'node:path'
import { Application, Converter, ReflectionKind } from 'typedoc'
import { mapText } from './pages.mjs'

/**
 * Writes a page for each export below `folder`/reference. Returns the sidebar, and the path of each export's page by
 * "entry point#name".
 */
export async function writeReference({ root, manifest, folder, repository }) {
  const entryPoints = entryPointsOf(manifest)
  const below = join(folder, 'reference')
  const app = await Application.bootstrapWithPlugins({
    plugin: ['typedoc-plugin-markdown'],
    tsconfig: join(root, 'site', 'tsconfig.json'),
    entryPoints: entryPoints.map(({ source }) => join(root, source)),
    basePath: root,
    displayBasePath: join(root, 'src'),
    outputs: [{ name: 'markdown', path: below }],
    // TypeScript 7 has checked the code; 6 does not infer a type that 7 does.
    skipErrorChecking: true,
    readme: 'none',
    disableGit: true,
    sourceLinkTemplate: `${repository}/blob/main/src/{path}#L{line}`,
    excludeExternals: true,
    excludeInternal: true,
    excludePrivate: true,
    sort: ['kind', 'instance-first', 'alphabetical-ignoring-documents'],
    router: 'member',
    entryFileName: 'index',
    hidePageHeader: true,
    hideBreadcrumbs: true,
    useCodeBlocks: true,
    parametersFormat: 'table',
    logLevel: 'Warn',
  })
  const names = new Map(entryPoints.map(({ name, source }) => [source.replace(/^src\/|(\/index)?\.ts$/g, ''), name]))
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const entryPoint of project.children ?? []) entryPoint.name = names.get(entryPoint.name) ?? entryPoint.name
  })
  // Members that a class inherits stand on the page of the class that has them: ExternalStream's would repeat all of Stream's.
  app.converter.on(Converter.EVENT_RESOLVE_END, ({ project }) => {
    for (const owner of project.getReflectionsByKind(ReflectionKind.Class)) {
      for (const member of [...(owner.children ?? [])]) {
        if (member.inheritedFrom?.reflection !== undefined) project.removeReflection(member)
      }
    }
  })
  const project = await app.convert()
  if (project === undefined) throw new Error('TypeDoc cannot read the entry points')
  await app.generateOutputs(project)
  if (app.logger.hasErrors()) throw new Error('TypeDoc reports errors')
  const pages = readdirSync(below, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .sort()
  for (const page of pages) tidy(join(below, page))
  const listing = listed(entryPoints, pages)
  writeLists(below, project, listing)
  // An export that another entry point has, too, has one page.
  for (const entryPoint of project.children ?? []) {
    for (const child of entryPoint.children ?? []) {
      const target = child.isReference() ? child.getTargetReflection() : undefined
      const page = listing.exported.get(`${target?.parent?.name}#${target?.name}`)
      if (page !== undefined) listing.exported.set(`${entryPoint.name}#${child.name}`, page)
    }
  }
  return listing
}

function entryPointsOf({ name, exports }) {
  return Object.entries(exports).flatMap(([path, { types }]) =>
    types === undefined
      ? []
      : [{ name: join(name, path), source: types.replace('./dist/', '').replace('.d.ts', '.ts') }],
  )
}

/** Codes of errors look like code, as they do in the guides. Below a member no headings: they would crowd the search. */
function tidy(path) {
  const text = readFileSync(path, 'utf8')
  const coded = mapText(text, (part) => part.replace(/\bERR_[A-Z_]+\b/g, '`$&`'))
    .replace(/ \| \\\| /g, ' | ')
    // A class of the inside: its members stand on this page.
    .replace(/^## Extends\n\n- `(?!Error|Disposable)\w+`\n\n/gm, '')
    .replace(/^#{4,} Get Signature\n\n/gm, '')
    .replace(/^#{4,} (.+)\n\n(?=[^|`#\n]|`[^`])/gm, '**$1:** ')
    .replace(/^#{4,} (.+)$/gm, '**$1**')
    // The signature has said so.
    .replace(/^\*\*Returns:\*\* `[^`\n]+`\n\n(?=\*\*|#)/gm, '')
  writeFileSync(path, `---\neditLink: false\npageClass: reference\n---\n\n${coded}`)
}

/** Pages that only lead to others are not searched. */
const OF_LIST = '---\neditLink: false\nsearch: false\n'

/** The page of each entry point, and the first of the reference: each export with the first sentence of its doc comment. */
function writeLists(below, project, { exported, sidebar }) {
  const parts = sidebar.map(({ text: entryPoint, items }) => {
    const module = project.children?.find(({ name }) => name === entryPoint)
    const rows = items
      .filter(({ kind }) => KINDS.some(([one]) => one === kind))
      .map(({ text: name, kind }) => {
        const found = module?.children?.find((child) => child.name === name && !child.isReference())
        const line = `: ${firstSentence(found, `${entryPoint} ${name}`)}`
        return { kind, line: (from) => `- [${name}](${linkFrom(from, exported.get(`${entryPoint}#${name}`))})${line}` }
      })
    // What another entry point has, too, has its page there.
    const others = (module?.children ?? []).filter(
      (child) => child.isReference() && !items.some(({ text }) => text === child.name),
    )
    for (const child of others) {
      const target = child.getTargetReflectionDeep()
      const page = exported.get(`${target.parent?.name}#${target.name}`)
      if (page === undefined) continue
      const line = `: ${firstSentence(target, `${entryPoint} ${child.name}`)}`
      rows.push({ kind: 'others', line: (from) => `- [${child.name}](${linkFrom(from, page)})${line}` })
    }
    return { entryPoint, rows }
  })
  const listOf = (from, rows, level) =>
    KINDS.flatMap(([kind, title]) => {
      const ofKind = rows.filter((row) => row.kind === kind)
      return ofKind.length === 0 ? [] : [`${level} ${title}\n\n${ofKind.map((row) => row.line(from)).join('\n')}\n`]
    }).join('\n')
  for (const { entryPoint, rows } of parts) {
    if (rows.length === 0) continue
    const page = `reference/${entryPoint}/index`
    writeFileSync(join(dirname(below), `${page}.md`), `${OF_LIST}---\n\n# ${entryPoint}\n\n${listOf(page, rows, '##')}`)
  }
  const lists = parts
    .filter(({ rows }) => rows.length > 0)
    .map(({ entryPoint, rows }) => `## ${entryPoint}\n\n${listOf('reference/index', rows, '###')}`)
  const text = `# API reference\n\nEach export, with the beginning of its doc comment, which editors show, too; its page has the whole. [The list in the package](../look-up/api.md) names the guides, too.\n\n${lists.join('\n')}`
  writeFileSync(join(below, 'index.md'), `${OF_LIST}outline: 2\n---\n\n${text}`)
}

const KINDS = [
  ['classes', 'Classes'],
  ['functions', 'Functions'],
  ['variables', 'Variables'],
  ['interfaces', 'Interfaces'],
  ['type-aliases', 'Types'],
  ['others', 'Of other entry points'],
]

const linkFrom = (from, page) => {
  const path = posix.relative(posix.dirname(from), page)
  return `${path.startsWith('.') ? path : `./${path}`}.md`
}

/** Up to the first full stop, or the first item of a list. */
function firstSentence(reflection, name) {
  // What stands above the first export of a file may be about the file.
  const own = reflection?.signatures?.[0] ?? reflection
  // A type that is a function has its comment there.
  const ofType = reflection?.type?.declaration
  const comments = [own, reflection, ofType, ofType?.signatures?.[0]].map((one) => one?.comment?.summary)
  const parts = comments.find((summary) => summary !== undefined)
  const text = (parts ?? [])
    .map((part) => part.text)
    .join('')
    .replace(/\s+/g, ' ')
    .trim()
  const [sentence = ''] = text.split(/(?<=\.) (?=[A-Z`'[])|:? - /)
  if (sentence === '') throw new Error(`${name} has no doc comment, whose first sentence the reference has`)
  return sentence
    .replace(/[.:]$/, '')
    .replace(/\bERR_[A-Z_]+\b/g, '`$&`')
    .replace(/<(?=[A-Za-z])/g, '&lt;')
}

function listed(entryPoints, pages) {
  const exported = new Map()
  const sidebar = entryPoints.map(({ name: entryPoint }) => {
    const items = pages.flatMap((page) => {
      const parts = page.split(sep)
      if (parts.length < 3 || parts.slice(0, -2).join('/') !== entryPoint) return []
      const name = basename(page, '.md')
      const path = `reference/${page.replaceAll(sep, '/').replace(/\.md$/, '')}`
      exported.set(`${entryPoint}#${name}`, path)
      return [{ text: name, link: `/${path}`, kind: parts.at(-2) }]
    })
    return { text: entryPoint, link: `/reference/${entryPoint}/`, items }
  })
  return { sidebar, exported }
}
