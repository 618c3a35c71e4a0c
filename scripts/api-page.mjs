// Writes the lists of docs/reference/api.md: each export of each entry point, with the beginning of its doc comment, from the declarations that
// a build makes. `--check` ends with 1 if the page has others.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const page = join(root, 'docs', 'reference', 'api.md')
const BEGIN = '<!-- exports: written by scripts/api-page.mjs -->\n'
const END = '\n<!-- end of exports -->'

/** Where to read more, by the beginning of the path of the file that declares the export; the first that fits counts. */
const GUIDES = {
  'foundation/base/errors': 'errors.md',
  'foundation/base/element-layout': '../guides/kernels.md',
  'core/graphs/': 'graphs.md',
  'core/kernels/triton-kernel': '../guides/triton.md',
  'core/kernels/': '../guides/kernels.md',
  'core/memory/': 'memory.md',
  'core/streams/green-context': '../guides/green-contexts.md',
  'core/streams/stream-options': '../guides/foreign-streams.md',
  'cu/triton/': '../guides/triton.md',
  'cu/': '../guides/cu.md',
  'tools/explore/': '../guides/exploration.md',
  'core/simulation': '../guides/testing.md',
  'libraries/dlpack/': '../guides/python.md',
  'tools/sanitizer/': '../guides/sanitizer.md',
  'tools/timeline/': '../guides/timeline.md',
  'tools/recording/': '../guides/recording.md',
  '': '../guides/coming-from.md',
}

/** Libraries have guides of their names. */
const guideOfLibrary = (path) =>
  /^libraries\/(\w+)\//
    .exec(path)
    ?.slice(1)
    .map((library) => `../guides/${library}.md`) ?? []

const LISTS = /^export (?:type )?\{([^}]*)\} from '([^']+)'/gm
const declarationsOf = (file) => readFileSync(file, 'utf8')

/** The names that a file passes on, with the file that each comes from, and its name there. */
function passedOn(file) {
  return [...declarationsOf(file).matchAll(LISTS)].flatMap(([, list, from]) =>
    list.split(',').flatMap((part) => {
      const [inside, name = inside] = part
        .trim()
        .replace(/^type /, '')
        .split(' as ')
      return inside === '' ? [] : [{ name, inside, file: join(dirname(file), from.replace(/\.js$/, '.d.ts')) }]
    }),
  )
}

/** The kind of declaration, the text of its comment, and the file that has it. */
function declarationOf(name, file) {
  const pattern = new RegExp(
    `(?:/\\*\\*((?:(?!\\*/)[^])*)\\*/\\s*)?^export (?:declare )?(?:abstract )?(class|function|const|interface|type) ${name}\\b`,
    'm',
  )
  const [found, comment = '', kind] = pattern.exec(declarationsOf(file)) ?? []
  if (found !== undefined)
    return {
      kind,
      comment: comment
        .replace(/^\s*\* ?/gm, '')
        .replace(/\s+/g, ' ')
        .trim(),
      file,
    }
  const further = passedOn(file).find((one) => one.name === name)
  if (further === undefined) throw new Error(`${file} declares no ${name}`)
  return declarationOf(further.inside, further.file)
}

/** The first sentence, up to its colon; or what comes before the first tag or item of a list. */
function beginningOf(comment, name) {
  const [beginning] = comment.split(/ ?(?:- |@\w+ )/)
  // A colon within backticks ends nothing.
  const [sentence] = beginning.split(/(?<=\.) (?=[A-Z`'[])|: (?=(?:[^`]*`[^`]*`)*[^`]*$)/)
  if (sentence === '') throw new Error(`${name} has no doc comment`)
  return sentence.replace(/[.:]$/, '')
}

const VALUES = ['class', 'function', 'const']

const titled = (guide) => `[${guide.replace(/^.*\/|\.md$/g, '').replaceAll('-', ' ')}](${guide})`

function guideOf(file) {
  const path = relative(join(root, 'dist', 'src'), file).replaceAll('\\', '/')
  const ofLibrary = guideOfLibrary(path).find((guide) => existsSync(join(dirname(page), guide)))
  return ofLibrary ?? Object.entries(GUIDES).find(([beginning]) => path.startsWith(beginning))[1]
}

/** What has a value, then the names of the types, which editors explain where they are used, and where to read more. */
function listsOf(file) {
  const rows = passedOn(file).map(({ name, inside, file }) => ({ name, ...declarationOf(inside, file) }))
  const order = ({ name }) => name.toLowerCase()
  rows.sort((one, other) => (order(one) < order(other) ? -1 : 1))
  const values = rows.filter(({ kind }) => VALUES.includes(kind))
  const types = rows.filter(({ kind }) => !VALUES.includes(kind))
  const lines = values.map(({ name, comment }) => `- \`${name}\`: ${beginningOf(comment, name)}`)
  const guides = [...new Set(values.map(({ file }) => titled(guideOf(file))))].sort()
  const more = guides.length === 0 ? [] : [`More: ${guides.join(', ')}`]
  const names = types.length === 0 ? [] : [`Types: ${types.map(({ name }) => `\`${name}\``).join(', ')}`]
  return [lines.join('\n'), ...names, ...more].filter((part) => part !== '').join('\n\n')
}

const { name, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const parts = Object.entries(exports).flatMap(([path, target]) =>
  // What registers something, and exports nothing, has no list.
  target.types === undefined || passedOn(join(root, target.types)).length === 0
    ? []
    : [`## ${join(name, path).replaceAll('\\', '/')}\n\n${listsOf(join(root, target.types))}\n`],
)
const text = readFileSync(page, 'utf8')
const [before, after] = [text.indexOf(BEGIN), text.indexOf(END)]
if (before < 0 || after < 0) throw new Error(`${page} has no place for the lists`)
const written = `${text.slice(0, before)}${BEGIN}\n${parts.join('\n')}${text.slice(after)}`
if (written === text) process.exit()
if (process.argv.includes('--check')) {
  console.error(
    'docs/reference/api.md has other lists than the declarations: run `node scripts/api-page.mjs` after a build',
  )
  process.exitCode = 1
} else writeFileSync(page, written)
