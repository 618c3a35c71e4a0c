/**
 * Every kernel in CUDA C++ that is written in this repository, in pages, examples, tests and doc comments, compiles with
 * NVRTC for the oldest architecture it knows and for new ones. No GPU is needed.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { compileCudaNow } from '../../src/foundation/native/nvrtc.js'
import { byEffort } from '../helpers/effort.js'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { root } from '../helpers/root.js'
import { examplesOf, readPages } from './guide-pages.js'

const [OLDEST, NEWER] = ['sm_75', ['sm_90', 'sm_100']] as const
/** What compiles for the oldest does for the newer ones, but where NVIDIA takes something away. */
const ARCHITECTURES = byEffort({ quick: [OLDEST], normal: [OLDEST], nightly: [OLDEST, ...NEWER] })
const FOLDERS = ['src', 'examples', 'tests', 'bench']
/** One value of each expression that stands in a source. */
const EXPRESSIONS: Readonly<Record<string, string>> = {
  VALUE: '7',
  name: 'decode',
  key: 'rw',
  parameters: 'unsigned char* p0, unsigned char* p1',
}
/** An instruction that older GPUs lack. */
const OF_SM_90 = /\b(griddepcontrol|cluster_nctaid)\b/
/** In a source that is to be refused. */
const MISTAKES = /\bundeclared\b/

interface KernelSource {
  readonly where: string
  readonly text: string
}

/** The texts of a program that have a kernel in them: none of them has a quote of its own kind inside. */
function kernelsOf(path: string, line: number, program: string): KernelSource[] {
  const found = new Map<number, KernelSource>()
  for (const { index } of program.matchAll(/__global__/g)) {
    const lineBegin = program.lastIndexOf('\n', index) + 1
    const single = program.lastIndexOf("'", index)
    const quote = single >= lineBegin ? "'" : '`'
    const begin = quote === "'" ? single : program.lastIndexOf('`', index)
    const text = program.slice(begin + 1, program.indexOf(quote, begin + 1))
    const where = `${path}:${line + program.slice(0, index).split('\n').length - 1}`
    found.set(begin, { where, text: filled(text, program) })
  }
  return [...found.values()]
}

/** The text with a value for each `${…}`: of a constant of the same program, or one of EXPRESSIONS. */
function filled(text: string, program: string): string {
  return text.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => {
    const value = new RegExp(`const ${name} = \`([^\`]*)\``).exec(program)?.[1] ?? EXPRESSIONS[name]
    if (value === undefined) throw new Error(`this test does not know what ${whole} stands for`)
    return value
  })
}

function allKernels(): readonly KernelSource[] {
  const paths = FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  )
  const programs = paths.sort().flatMap((path) => {
    const text = readFileSync(join(root, path), 'utf8')
    // Of src, what the doc comments show; the code there has none of its own.
    const blocks = path.startsWith('src/') ? examplesOf(path, text) : [{ line: 1, code: text }]
    return blocks.map(({ line, code }) => ({ path, line, code }))
  })
  const pages = readPages().flatMap(({ path, blocks }) => blocks.map(({ line, code }) => ({ path, line, code })))
  const self = 'tests/docs/kernel-sources.test.ts'
  // Those are files for nvcc, with mistakes and halves of the host in them.
  const isLeftOut = (path: string): boolean =>
    path === self || /^(?:tests|src)\/cu\/|^tests\/tools\/cli\/compile|^docs\/guides\/cu\.md$/.test(path)
  return [...programs, ...pages]
    .filter(({ path }) => !isLeftOut(path))
    .flatMap(({ path, line, code }) => kernelsOf(path, line, code))
}

describe('kernels in CUDA C++', () => {
  const kernels = allKernels()

  it('are found wherever they are written', () => {
    for (const place of [
      'README.md',
      'docs/guides/kernels.md',
      'bench/decode.ts',
      'src/core/kernels/defined-kernel.ts',
    ]) {
      assert.ok(
        kernels.some(({ where }) => where.startsWith(`${place}:`)),
        `none in ${place}`,
      )
    }
    const refused = kernels.filter(({ text }) => MISTAKES.test(text))
    assert.equal(refused.length, 1, 'the one that is to be refused')
  })

  const skip = lacksNvrtc()
  if (skip !== false) console.log(`skipped: ${skip}`)
  for (const { where, text } of kernels) {
    it(`${where} compiles`, { skip }, () => {
      for (const arch of OF_SM_90.test(text) ? NEWER : ARCHITECTURES) {
        const compile = (): Uint8Array =>
          compileCudaNow({ text, file: where, options: [`--gpu-architecture=${arch}`] }, 'cubin')
        if (MISTAKES.test(text)) assert.throws(compile, { code: 'ERR_COMPILATION' })
        else assert.ok(compile().length > 0)
      }
    })
  }
})
