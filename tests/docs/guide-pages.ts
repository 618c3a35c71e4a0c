/** The Markdown pages of the repository, as far as the tests of the guides read them. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../helpers/root.js'

/** A fenced block of TypeScript. */
export interface Block {
  /** The page's path from the root of the repository. */
  readonly page: string
  /** The line of the page on which the code begins, counted from 1. */
  readonly line: number
  readonly code: string
}

export interface CodeSpan {
  readonly line: number
  readonly code: string
}

export interface Link {
  readonly line: number
  readonly target: string
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

/** README.md and its neighbours, and the guides. */
export function readPages(): readonly Page[] {
  const names = (folder: string): string[] => readdirSync(join(root, folder)).filter((name) => name.endsWith('.md'))
  const paths = [...names('.'), ...names('docs').map((name) => `docs/${name}`)]
  return paths.sort().map((path) => parsePage(path, readFileSync(join(root, path), 'utf8')))
}

export function parsePage(path: string, markdown: string): Page {
  const blocks: Block[] = []
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
      if (fence.language === 'ts') blocks.push({ page: path, line: fence.line, code: fence.code.join('\n') })
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

function anchorOf(heading: string): string {
  const words = heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '')
  return words.trim().replace(/\s/g, '-')
}
