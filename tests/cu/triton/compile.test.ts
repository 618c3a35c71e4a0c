/** Files of Python with Triton kernels as modules: what is compiled of them, what is said of mistakes, and when it is compiled again. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import {
  type CuError,
  type CuEsbuildModule,
  type CuRollupContext,
  compileTriton,
  compileTritonNow,
  cuEsbuild,
  cuRollup,
} from 'cuda-streams/cu'
import { CASES } from './cases.js'
import { importStored, lacksTriton, projectFolder, storedModule, tritonFile } from './triton-files.js'

const skip = lacksTriton()
const HEAD = 'import triton\nimport triton.language as tl\n'
const BODY = '@triton.jit\ndef k(x, n, BLOCK: tl.constexpr):\n    tl.store(x + tl.arange(0, BLOCK), n)\n'

function written(text: string, name = 'k.py'): string {
  const file = join(projectFolder(), name)
  writeFileSync(file, text)
  return file
}

async function mistakesIn(text: string): Promise<readonly string[]> {
  const file = written(text)
  try {
    await compileTriton(file)
  } catch (error) {
    const { code, diagnostics } = error as CuError
    assert.equal(code, 'ERR_COMPILATION')
    return diagnostics.map(({ file: place, line, column, message }) => {
      assert.equal(place, file)
      return `${line}:${column}: ${message}`
    })
  }
  return assert.fail('it compiles')
}

describe('files of Python with Triton kernels', { skip }, () => {
  test('what is stored is what Triton makes, but for its version', async () => {
    for (const name of new Set(CASES.map(({ file }) => file))) {
      const { module, kernels } = await compileTriton(tritonFile(name))
      const heads = (text: string): readonly string[] =>
        text.match(/^(?:export .*| {2}(?:signature|parameterNames|key): .*)$/gm) ?? []
      assert.deepEqual(heads(module), heads(storedModule(name)))
      assert.deepEqual(Object.keys(await importStored(name)).sort(), kernels.map((each) => each.name).sort())
    }
  })

  test('types are those of the declaration, and accesses those of the code', async () => {
    const { declaration } = await compileTriton(tritonFile('histogram.py'))
    assert.match(
      declaration,
      /\/\*\* histogram\.py, line 8 \*\/\nexport declare const histogram: TritonKernel<\n {2}readonly \[x: 'in u8\*', counts: 'atomic i32\*', n: 'i32'\],\n {2}\{ readonly BLOCK: 1024; readonly BINS: 256; readonly num_warps: 4; readonly num_stages: 3 \}\n>/,
    )
  })

  test('annotations and defaults are a declaration, and a docstring the comment', async () => {
    const { kernels } = await compileTriton(tritonFile('add.py'))
    const [add] = kernels
    assert.deepEqual(
      [add?.signature, add?.parameterNames, add?.comment, add?.line],
      [['in f32*', 'in f32*', 'out f32*', 'i32'], ['x', 'y', 'out', 'n'], 'Adds y to x.', 7],
    )
  })

  test('several declarations of one kernel are several exports, named by what differs', async () => {
    const lines = [
      'k(*fp32, fp32, BLOCK=64)',
      'k(*fp16, fp32, BLOCK=64)',
      'other = k(*fp32, fp32, BLOCK=128, num_warps=1)',
    ]
    const { kernels } = await compileTriton(
      written(`${HEAD}${lines.map((line) => `# cuda-streams: ${line}\n`).join('')}${BODY}`),
    )
    assert.deepEqual(
      kernels.map(({ name, configs }) => [name, configs[0]?.meta['BLOCK'], configs[0]?.variants[0]?.warps]),
      [
        ['k_fp32', 64, 4],
        ['k_fp16', 64, 4],
        ['other', 128, 1],
      ],
    )
  })

  test('the half for the host is not run, and what it imports need not be there', async () => {
    const host = 'import no_such_module\nfrom no_such_module import a\nrun = a(no_such_module.b)\nprint(1 / 0)\n'
    const used = 'import other_module\nSIZES = [other_module.c, 32]\nSIZES.append(64)\n'
    const { kernels } = await compileTriton(
      written(`${HEAD}${host}${used}# cuda-streams: k(*i32, i32, BLOCK=SIZES[2])\n${BODY}`),
    )
    assert.equal(kernels[0]?.configs[0]?.meta['BLOCK'], 64)
  })

  test('a kernel of which nothing says the types is an error, or noted beside others', async () => {
    assert.deepEqual(await mistakesIn(`${HEAD}${BODY}`), [
      "4:5: nothing says the types of x and n and the values of BLOCK, which Triton has from a launch in Python: write above it such as '# cuda-streams: k(x: *fp32, n: i32, BLOCK=1024)', or annotations (x: '*fp32') and defaults (BLOCK: tl.constexpr = 1024)",
    ])
    const { kernels, notes } = await compileTriton(
      written(`${HEAD}${BODY}@triton.jit\ndef other(x: '*fp32'):\n    tl.store(x, 1.0)\n`),
    )
    assert.deepEqual([kernels.map(({ name }) => name), notes.length], [['other'], 1])
    assert.match(notes[0] ?? '', /k\.py:4:5: not exported: nothing says the types of x and n/)
  })

  test('the declaration that is proposed knows pointers, also through assignments and calls', async () => {
    const kernel = `@triton.jit
def load(p, at):
    return tl.load(p + at)
@triton.jit
def k(a, b, row_stride, eps, num_warps: tl.constexpr):
    b += tl.program_id(0) * row_stride
    tl.store(b, load(a, 0) + eps)
`
    const [said] = await mistakesIn(`${HEAD}${kernel}`)
    const proposed = 'k(a: *fp32, b: *fp32, row_stride: i32, eps: fp32, num_warps=4)'
    assert.ok(said?.includes(`'# cuda-streams: ${proposed}'`), said)
    const { kernels } = await compileTriton(written(`${HEAD}# cuda-streams: ${proposed.replace('4', '2')}\n${kernel}`))
    assert.equal(kernels[0]?.configs[0]?.variants[0]?.warps, 2)
  })

  test('mistakes have their lines, also within functions that a kernel calls', async () => {
    const helper = '@triton.jit\ndef helper(x):\n    return tl.nothing(x)\n'
    const calls = "@triton.jit\ndef k(x: '*fp32'):\n    tl.store(x, helper(1.0))\n"
    assert.deepEqual(await mistakesIn(`${HEAD}${helper}${calls}`), [
      "5:12: AttributeError: module 'triton.language' has no attribute 'nothing' (for k)",
    ])
    assert.deepEqual(await mistakesIn(`${HEAD}# cuda-streams: k(*fp32, i32, BLOCK=100)\n${BODY}`), [
      "6:18: arange's range must be a power of 2 (for k)",
    ])
    assert.deepEqual(await mistakesIn(`${HEAD}def f(:\n@triton.jit\n`), ['3:7: invalid syntax'])
    assert.deepEqual(
      await mistakesIn(`${HEAD}SIZE = 1 / 0\n@triton.jit\ndef k(x: '*fp32', N: tl.constexpr = SIZE):\n    pass\n`),
      ['3:1: ZeroDivisionError: division by zero (while Python runs what the kernels need of the file)'],
    )
  })

  test('a declaration that cannot be meant says what is known', async () => {
    const said = async (line: string): Promise<string> =>
      (await mistakesIn(`${HEAD}# cuda-streams: ${line}\n${BODY}`))[0] ?? ''
    assert.match(await said('k(*fp32, i33, BLOCK=64)'), /^3:17: 'i33' of n is no type of Triton, such as '\*fp32'/)
    assert.match(
      await said('k(*fp32, i32, BLOCKS=64)'),
      /'BLOCKS' is neither a parameter of k \(x, n and BLOCK\) nor one of/,
    )
    assert.match(await said('other(*fp32)'), /there is no kernel 'other' in this file, but k/)
    assert.match(await said('k(*fp32, i32, BLOCK=64'), /is no declaration of a kernel/)
    assert.match(await said('k(*fp32:8, i32, BLOCK=64)'), /a hint is 16, for a multiple of 16, or 1/)
    assert.match(await said('k(*fp32, i32, BLOCK=64, 1)'), /'1' is one more than the parameters of k/)
  })

  test('a file is compiled again when it or what it imports has changed, and not otherwise', async () => {
    const file = written(`from sizes import BLOCK\n${HEAD}# cuda-streams: k(*i32, i32, BLOCK=BLOCK)\n${BODY}`)
    const sizes = join(file, '..', 'sizes.py')
    const block = async (): Promise<unknown> => (await compileTriton(file)).kernels[0]?.configs[0]?.meta['BLOCK']
    writeFileSync(sizes, 'BLOCK = 32\n')
    assert.equal(await block(), 32)
    const { includes } = compileTritonNow(file)
    assert.deepEqual(includes, [sizes])
    writeFileSync(sizes, 'BLOCK = 64\n')
    assert.equal(await block(), 64)
  })

  test('an architecture and a Python can be named', async () => {
    const { module } = await compileTriton(tritonFile('add.py'), { arch: 'sm_89' })
    assert.match(module, /^\.target sm_89$/m)
    await assert.rejects(compileTriton(tritonFile('add.py'), { arch: 'new' }), { code: 'ERR_INVALID_ARG_VALUE' })
    const nowhere = { python: join(projectFolder(), 'python') }
    await assert.rejects(compileTriton(tritonFile('add.py'), nowhere), {
      code: 'ERR_UNSUPPORTED',
      message: /is not there: install/,
    })
    assert.throws(() => compileTritonNow(tritonFile('add.py'), nowhere), { code: 'ERR_UNSUPPORTED' })
  })

  test('plug-ins load such files, and leave other files of Python alone', async () => {
    const file = written(`${HEAD}# cuda-streams: k(*i32, i32, BLOCK=64)\n${BODY}`)
    const other = join(file, '..', 'other.py')
    writeFileSync(other, 'print(1)\n')
    const watched: string[] = []
    const context: CuRollupContext = {
      addWatchFile: (name) => void watched.push(name),
      error: ({ message, loc }) => assert.fail(`${loc.line}: ${message}`),
    }
    const plugin = cuRollup()
    assert.match((await plugin.load.call(context, `${file}?t=1`))?.code ?? '', /^export const k = defineTritonKernel/m)
    assert.equal(await plugin.load.call(context, other), null)
    assert.match(readFileSync(file.replace(/\.py$/, '.d.py.ts'), 'utf8'), /TritonKernel</)
    let load: ((given: { path: string }) => Promise<CuEsbuildModule | undefined>) | undefined
    cuEsbuild({ declarations: false }).setup({
      onLoad: (_, given) => {
        load = given
      },
    })
    assert.match((await load?.({ path: file }))?.contents ?? '', /defineTritonKernel/)
    assert.equal(await load?.({ path: other }), undefined)
    writeFileSync(file, `${HEAD}${BODY}`)
    const { errors } = (await load?.({ path: file })) ?? {}
    assert.deepEqual(errors?.[0]?.location, { file, line: 4, column: 4, lineText: 'def k(x, n, BLOCK: tl.constexpr):' })
  })

  test('the hook imports such files, and the command writes modules', () => {
    const folder = projectFolder()
    copyFileSync(tritonFile('add.py'), join(folder, 'add.py'))
    writeFileSync(
      join(folder, 'main.js'),
      `import { Device, Stream } from 'cuda-streams'
const { add } = await import(process.argv[2])
const stream = new Stream({ device: Device.get() })
const x = stream.bufferFrom(new Float32Array(2000).fill(1.5))
const out = stream.bufferFrom(new Float32Array(2000))
stream.launch(add, { grid: ({ BLOCK }) => Math.ceil(2000 / BLOCK) }, x, x, out, 2000)
console.log((await stream.download(out, Float32Array)).reduce((a, b) => a + b))
`,
    )
    const run = (...args: string[]): string => {
      const env = { ...process.env, CUDA_STREAMS_DRIVER: 'sim' }
      const { stdout, stderr, status } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' })
      assert.equal(status, 0, stderr)
      return stdout
    }
    assert.equal(run('--import', 'cuda-streams/cu/register', 'main.js', './add.py'), '6000\n')
    const command = join(folder, 'node_modules', 'cuda-streams', 'dist', 'src', 'tools', 'cli', 'main.js')
    const printed = run(command, 'compile', 'add.py', '--ptx')
    assert.match(
      printed,
      /^add\.py -> add\.d\.py\.ts, add\.py\.js, add\.py\.d\.ts, add\.0\.0\.ptx, add\.0\.1\.ptx\n {2}add\(x: in f32\*, y/,
    )
    assert.ok(existsSync(join(folder, 'add.0.1.ptx')))
    assert.equal(run('main.js', './add.py.js'), '6000\n')
    assert.match(run(command, 'doctor', 'add.py.js'), /add \(sm_80\): device 0 runs them/)
  })
})
