/** The Markdown pages of the repository, as far as the tests of the guides read them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { root } from '../helpers/root.js'

/** A fenced block of code. */
export interface Block {
  /** The page's path from the root of the repository. */
  readonly page: string
  /** The line of the page on which the code begins, counted from 1. */
  readonly line: number
  readonly language: 'ts' | 'js' | 'sh'
  readonly code: string
  /** What it prints, where a block of `text` follows it. */
  readonly output?: string
}

/** The first line of a block that cannot run by itself says so: what it needs, or that it continues the block before it. */
export const NEEDS = /^\/\/ Needs (?!NVRTC\b|Python\b|ONNX Runtime\b)/
/** What needs NVRTC, Python and NumPy, or ONNX Runtime, runs where they are. */
export const NEEDS_NVRTC = /^\/\/ Needs NVRTC\b/
export const NEEDS_PYTHON = /^\/\/ Needs Python\b/
export const NEEDS_ONNX_RUNTIME = /^\/\/ Needs ONNX Runtime\b/
export const CONTINUES = /^\/\/ Continues /

export interface CodeSpan {
  readonly line: number
  readonly code: string
}

export interface Link {
  readonly line: number
  readonly target: string
}

/** Before a path from the root: how pages of the package name a file that is not packed. */
const REPOSITORY = 'https://github.com/cuda-streams/cuda-streams/blob/main/'

/** Where a link of the page leads, if that is within the repository: a path from the root, and what stands behind '#'. */
export function placeOf(page: string, target: string): readonly [file: string, anchor?: string] | undefined {
  const inside = target.startsWith(REPOSITORY)
  if (!inside && /^[a-z]+:/.test(target)) return undefined
  const [path = '', anchor] = target.replace(REPOSITORY, '').split('#')
  const file = inside ? path : path === '' ? page : normalize(join(dirname(page), path))
  return anchor === undefined ? [file] : [file, anchor]
}

export interface Page {
  /** From the root of the repository. */
  readonly path: string
  readonly blocks: readonly Block[]
  /** What stands between backticks, outside of fenced blocks and of what stands left of a column 'here' in tables. */
  readonly codeSpans: readonly CodeSpan[]
  readonly links: readonly Link[]
  /** What a link may say behind a '#', as GitHub makes it from the headings; and places with an id. */
  readonly anchors: ReadonlySet<string>
}

/** README.md and its neighbours, the guides, and what is said beside the examples and the tests. */
export function readPages(): readonly Page[] {
  const own = readdirSync(root).filter((name) => name.endsWith('.md'))
  const folders = ['docs', 'examples', 'tests', '.github'].filter((folder) => existsSync(join(root, folder)))
  const below = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  )
  const paths = [...own, ...below]
  return paths.sort().map((path) => parsePage(path, readFileSync(join(root, path), 'utf8')))
}

/** The examples of doc comments, each on its line of the file. */
export function readExamples(): readonly Block[] {
  const paths = readdirSync(join(root, 'src'), { encoding: 'utf8', recursive: true }).filter((path) =>
    path.endsWith('.ts'),
  )
  return paths.sort().flatMap((path) => examplesOf(`src/${path}`, readFileSync(join(root, 'src', path), 'utf8')))
}

export function examplesOf(path: string, source: string): readonly Block[] {
  const comments = source.split('\n').map((line) => /^ *\* (.*)$/.exec(line)?.[1] ?? '')
  return parsePage(path, comments.join('\n')).blocks
}

export function parsePage(path: string, markdown: string): Page {
  const blocks: Block[] = []
  let previous = ''
  const codeSpans: CodeSpan[] = []
  const links: Link[] = []
  const anchors = new Set<string>()
  let columnOfOurs = 0
  let fence: { readonly language: string; readonly line: number; readonly code: string[] } | undefined
  for (const [index, text] of markdown.split('\n').entries()) {
    const opening = /^\s*```(\w*)/.exec(text)
    if (fence !== undefined) {
      if (opening === null) {
        fence.code.push(text)
        continue
      }
      const code = fence.code.join('\n')
      const { language, line } = fence
      if (language === 'ts' || language === 'js' || language === 'sh') blocks.push({ page: path, line, language, code })
      const last = blocks.at(-1)
      if (language === 'text') {
        if (last === undefined || previous === '') throw new Error(`${path}:${line}: output of no block`)
        blocks.splice(-1, 1, { ...last, output: code })
      }
      previous = blocks.at(-1)?.line === line ? language : ''
      fence = undefined
      continue
    }
    if (opening !== null) {
      fence = { language: opening[1] ?? '', line: index + 2, code: [] }
      continue
    }
    const heading = /^#+ (.*)$/.exec(text)?.[1]
    if (heading !== undefined) anchors.add(anchorOf(heading))
    for (const [, id = ''] of text.matchAll(/<a id="([^"]+)">/g)) anchors.add(id)
    const cells = text.split('|').map((cell) => cell.trim())
    if (!text.startsWith('|')) columnOfOurs = 0
    else if (cells.includes('here')) columnOfOurs = cells.indexOf('here')
    const said = cells.slice(columnOfOurs).join('|')
    for (const [, code = ''] of said.matchAll(/`([^`]+)`/g)) codeSpans.push({ line: index + 1, code })
    for (const [, target = ''] of text.replace(/`[^`]*`/g, '').matchAll(/\]\(([^)\s]*)\)/g)) {
      links.push({ line: index + 1, target })
    }
  }
  if (fence !== undefined) throw new Error(`${path}: the block that begins on line ${fence.line} has no end`)
  return { path, blocks, codeSpans, links, anchors }
}

/** The programs of a page: a block that continues the one before it is pasted behind that. */
export function programsOf({ blocks }: Page): readonly Block[] {
  const programs: Block[] = []
  for (const block of blocks) {
    const before = programs.at(-1)
    if (block.language === 'sh') continue
    if (!CONTINUES.test(block.code)) programs.push(block)
    else if (before === undefined) throw new Error(`${titleOf(block)} continues nothing`)
    else programs.push({ ...block, line: block.line - linesOf(before), code: `${before.code}\n${block.code}` })
  }
  return programs
}

const linesOf = ({ code }: Block): number => code.split('\n').length

export function titleOf({ page, line }: Block): string {
  return `${page}:${line}`
}

function anchorOf(heading: string): string {
  const words = heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '')
  return words.trim().replace(/\s/g, '-')
}
