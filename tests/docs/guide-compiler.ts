/** Compiles the code blocks of the guides and doc comments against the package's own declarations, all in one run of the compiler. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import * as cudaStreams from 'cuda-streams'
import { root } from '../helpers/root.js'
import type { Block } from './guide-pages.js'
import { PRELUDE } from './guide-prelude.js'

/** What came of a block. */
export interface Compiled {
  readonly block: Block
  /** What the compiler says, with the lines of the page. */
  readonly errors: readonly string[]
  /** The JavaScript. */
  readonly script: string
}

/** Blocks may be fragments: what they use of the package is imported, and PRELUDE declares the rest. */
const OPTIONS = {
  extends: '../../tsconfig.json',
  compilerOptions: {
    rootDir: '.',
    outDir: 'out',
    declaration: false,
    noUnusedLocals: false,
    noUnusedParameters: false,
    // docs/python.md speaks of files of an example as if the reader had taken them.
    rootDirs: ['.', '../examples/python'],
  },
  include: ['*.ts'],
}

export class GuideCompiler {
  readonly #folder: string
  readonly #exported = exportedNames()

  constructor() {
    // Within dist/, where 'cuda-streams' is this package, as built.
    mkdirSync(join(root, 'dist'), { recursive: true })
    this.#folder = mkdtempSync(join(root, 'dist', 'guides-'))
  }

  compile(blocks: readonly Block[]): readonly Compiled[] {
    writeFileSync(join(this.#folder, 'tsconfig.json'), JSON.stringify(OPTIONS))
    writeFileSync(join(this.#folder, 'prelude.ts'), PRELUDE)
    for (const block of blocks) {
      // The code keeps the line it has on its page, so that errors name that line.
      const before = this.#importsFor(block.code) + '\n'.repeat(block.line - 1)
      writeFileSync(join(this.#folder, `${nameOf(block)}.ts`), `${before}${block.code}\nexport {}\n`)
    }
    const { stdout, stderr } = spawnSync(process.execPath, [compiler(), '--pretty', 'false', '-p', '.'], {
      cwd: this.#folder,
      encoding: 'utf8',
    })
    const said = `${stdout}${stderr}`.split('\n').filter((line) => line !== '')
    const stray = said.filter((line) => !/^\s/.test(line) && !blocks.some((block) => isOf(block, line)))
    if (stray.length > 0) throw new Error(`The compiler speaks of something else than the blocks:\n${said.join('\n')}`)
    return blocks.map((block) => ({
      block,
      errors: errorsOf(block, said),
      script: join(this.#folder, 'out', `${nameOf(block)}.js`),
    }))
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #importsFor(code: string): string {
    const used = [...this.#exported].filter(
      ([name]) =>
        new RegExp(`\\b${name}\\b`).test(code) &&
        !new RegExp(`\\bimport\\b[^'"]*\\b${name}\\b[^'"]*from|\\b(class|const|interface|type) ${name}\\b`).test(code),
    )
    if (used.length === 0) return ''
    const names = used.map(([name, isType]) => (isType ? `type ${name}` : name))
    return `import { ${names.join(', ')} } from 'cuda-streams'`
  }
}

/** Are the compiler and what it is to compile there? They are not where only the built tests are. */
export function compilerUnavailable(): string | undefined {
  if (!existsSync(join(root, 'README.md'))) return 'README.md and the examples are not here'
  try {
    compiler()
    return undefined
  } catch {
    return 'TypeScript is not installed here'
  }
}

/** The TypeScript compiler, as a script for Node. */
export function compiler(): string {
  return join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
}

/** What the package exports, and whether it is only a type. */
function exportedNames(): ReadonlyMap<string, boolean> {
  const declarations = readFileSync(join(root, 'dist', 'src', 'index.d.ts'), 'utf8')
  const names = new Map<string, boolean>()
  for (const [, list = ''] of declarations.matchAll(/export (?:type )?\{([^}]*)\}/g)) {
    for (const [name] of list.replace(/\btype /g, '').matchAll(/\w+/g)) names.set(name, !(name in cudaStreams))
  }
  return names
}

function nameOf({ page, line }: Block): string {
  return `${page.replace(/\.(md|ts)$/, '').replaceAll('/', '.')}.${line}`
}

function isOf(block: Block, line: string): boolean {
  return line.startsWith(`${nameOf(block)}.ts(`)
}

/** The errors in a block, each with the indented lines that explain it. */
function errorsOf(block: Block, said: readonly string[]): readonly string[] {
  const errors: string[] = []
  let own = false
  for (const line of said) {
    if (!/^\s/.test(line)) own = isOf(block, line)
    if (own) errors.push(line.replace(`${nameOf(block)}.ts`, block.page))
  }
  return errors
}
