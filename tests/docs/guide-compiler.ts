/** Compiles the code of the guides and doc comments against the package's own declarations, as strictly as a project may. */
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

/** The options that docs/tutorials/first-stream.md recommends, and stricter ones. */
const STRICT = {
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noPropertyAccessFromIndexSignature: true,
  noImplicitOverride: true,
  verbatimModuleSyntax: true,
  module: 'nodenext',
  target: 'es2022',
  types: ['node'],
  skipLibCheck: true,
  allowJs: true,
  checkJs: true,
  allowArbitraryExtensions: true,
}

/** What the guides import of a file of CUDA C++. */
const KERNELS = `export declare const axpy: import('cuda-streams').DefinedKernel<readonly [a: 'f32', x: 'in f32*', y: 'inout f32*', n: 'i32']>
`

/** What the guides import of files of Python. */
const TRITON_KERNELS = {
  'softmax.d.py.ts': `export declare const softmax: import('cuda-streams/triton').TritonKernel<readonly [out: 'out f32*', x: 'in f32*', stride: 'i32', n: 'i32'], { readonly BLOCK: 1024 }>
`,
  'matmul.d.py.ts': `export declare const matmul: import('cuda-streams/triton').TritonKernel<readonly [a: 'in f32*', b: 'in f32*', c: 'out f32*', n: 'i32'], { readonly BLOCK: 32 | 64 }>
`,
}

export class GuideCompiler {
  readonly #folder: string
  readonly #exported = exportedNames()

  constructor() {
    // Within dist/, where 'cuda-streams' is this package, as built.
    mkdirSync(join(root, 'dist'), { recursive: true })
    this.#folder = mkdtempSync(join(root, 'dist', 'guides-'))
  }

  /** Each block by itself, as a reader pastes it into an empty file. */
  pasted(blocks: readonly Block[]): readonly Compiled[] {
    return this.#compile('pasted', blocks, ({ code }) => code)
  }

  /** Blocks may be fragments: what they use of the package is imported, and PRELUDE declares the rest. */
  fragments(blocks: readonly Block[]): readonly Compiled[] {
    return this.#compile('fragments', blocks, ({ code }) => this.#importsFor(code) + code, PRELUDE)
  }

  /** A folder for programs to run in, which may write files there. */
  emptyProject(): string {
    const folder = join(this.#folder, 'project')
    mkdirSync(folder)
    writeFileSync(join(folder, 'package.json'), '{ "private": true }')
    return folder
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #compile(
    name: string,
    blocks: readonly Block[],
    textOf: (block: Block) => string,
    prelude?: string,
  ): readonly Compiled[] {
    const folder = join(this.#folder, name)
    mkdirSync(folder)
    const roots = { rootDir: '.', outDir: 'out' }
    // The browser has names that PRELUDE declares, such as `event`.
    const compilerOptions = { ...STRICT, ...roots, ...(prelude && { lib: ['es2023', 'esnext.disposable'] }) }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*'] }))
    for (const name of ['axpy.d.cu.ts', 'axpy.cu.d.ts']) writeFileSync(join(folder, name), KERNELS)
    for (const [name, text] of Object.entries(TRITON_KERNELS)) writeFileSync(join(folder, name), text)
    if (prelude !== undefined) writeFileSync(join(folder, 'prelude.ts'), prelude)
    // What comes before the code stands on its first line, so that errors name the line of the block.
    for (const block of blocks) writeFileSync(join(folder, fileOf(block)), `${textOf(block)}\nexport {}\n`)
    const { stdout, stderr } = spawnSync(process.execPath, [compiler(), '--pretty', 'false', '-p', '.'], {
      cwd: folder,
      encoding: 'utf8',
    })
    const said = `${stdout}${stderr}`.split('\n').filter((line) => line !== '')
    const stray = said.filter((line) => !/^\s/.test(line) && !blocks.some((block) => isOf(block, line)))
    if (stray.length > 0) throw new Error(`The compiler speaks of something else than the blocks:\n${said.join('\n')}`)
    return blocks.map((block) => ({
      block,
      errors: errorsOf(block, said),
      script: join(folder, 'out', fileOf(block).replace(/\.ts$/, '.js')),
    }))
  }

  #importsFor(code: string): string {
    const used = [...this.#exported].filter(
      ([name]) =>
        new RegExp(`\\b${name}\\b`).test(code) &&
        !new RegExp(`\\bimport\\b[^'"]*\\b${name}\\b[^'"]*from|\\b(class|const|interface|type) ${name}\\b`).test(code),
    )
    if (used.length === 0) return ''
    const names = used.map(([name, isType]) => (isType ? `type ${name}` : name))
    return `import { ${names.join(', ')} } from 'cuda-streams';`
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
  const declarations = readFileSync(join(root, 'dist', 'src', 'entry-points', 'index.d.ts'), 'utf8')
  const names = new Map<string, boolean>()
  for (const [, list = ''] of declarations.matchAll(/export (?:type )?\{([^}]*)\}/g)) {
    for (const [name] of list.replace(/\btype /g, '').matchAll(/\w+/g)) names.set(name, !(name in cudaStreams))
  }
  return names
}

function fileOf({ page, line, language }: Block): string {
  return `${page.replace(/\.(md|ts)$/, '').replaceAll('/', '.')}.${line}.${language}`
}

function isOf(block: Block, line: string): boolean {
  return line.startsWith(`${fileOf(block)}(`)
}

/** The errors in a block, each at its line of the page, with the indented lines that explain it. */
function errorsOf(block: Block, said: readonly string[]): readonly string[] {
  const errors: string[] = []
  let own = false
  for (const line of said) {
    if (!/^\s/.test(line)) own = isOf(block, line)
    if (!own) continue
    const [, row = '1', rest = line] = /\((\d+)(,.*)$/.exec(line) ?? []
    errors.push(rest === line ? line : `${block.page}(${Number(row) + block.line - 1}${rest}`)
  }
  return errors
}
