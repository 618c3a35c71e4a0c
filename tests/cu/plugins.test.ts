/** The plug-ins, called as bundlers call them. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type CuEsbuildModule, type CuRollupContext, cuEsbuild, cuRollup } from 'cuda-streams/cu'
import { lacksNvrtc } from '../helpers/nvrtc.js'
import { scratchFolder } from '../helpers/scratch.js'

const skip = lacksNvrtc()

function project() {
  const folder = scratchFolder('cu-plugins')
  writeFileSync(join(folder, 'own.h'), '#define VALUE 1\n')
  writeFileSync(join(folder, 'own.cu'), '#include "own.h"\n__global__ void k(int *x) { *x = VALUE; }\n')
  writeFileSync(join(folder, 'wrong.cu'), '#include "own.h"\n__global__ void k(int *x) {\n\t*x = unknown;\n}\n')
  return folder
}

class Context implements CuRollupContext {
  readonly watched: string[] = []
  readonly errors: unknown[] = []

  addWatchFile(file: string): void {
    this.watched.push(file)
  }

  error(error: Parameters<CuRollupContext['error']>[0]): never {
    this.errors.push(error)
    throw new Error(error.message)
  }
}

test('Rollup and Vite load kernels, watch their headers, and show mistakes at their places', { skip }, async () => {
  const folder = project()
  const plugin = cuRollup()
  const context = new Context()
  assert.equal(await plugin.load.call(context, join(folder, 'other.js')), null)
  const loaded = await plugin.load.call(context, `${join(folder, 'own.cu')}?t=12`)
  assert.match(loaded?.code ?? '', /^export const k = defineKernel/m)
  assert.deepEqual(context.watched, [join(folder, 'own.h')])
  assert.match(readFileSync(join(folder, 'own.d.cu.ts'), 'utf8'), /k: DefinedKernel<readonly \[x: 'out i32\*'\]>/)
  const wrong = join(folder, 'wrong.cu')
  await assert.rejects(plugin.load.call(context, wrong), /identifier "unknown" is undefined/)
  assert.equal(context.watched.length, 2, 'the header may be to blame')
  const frame =
    '  1 | #include "own.h"\n  2 | __global__ void k(int *x) {\n> 3 |     *x = unknown;\n    |          ^\n  4 | }\n  5 |'
  const loc = { file: wrong, line: 3, column: 6 }
  assert.deepEqual(context.errors, [{ message: 'identifier "unknown" is undefined', id: wrong, frame, loc }])
})

test('esbuild gets the same in its own form', { skip }, async () => {
  const folder = project()
  let load: ((given: { path: string }) => Promise<CuEsbuildModule | undefined>) | undefined
  cuEsbuild({ declarations: false, options: ['-DOTHER=1'] }).setup({
    onLoad: ({ filter }, given) => {
      assert.ok(filter.test('own.cu') && !filter.test('own.cu.js'))
      load = given
    },
  })
  assert.ok(load)
  const [own, wrong, header] = ['own.cu', 'wrong.cu', 'own.h'].map((name) => join(folder, name))
  assert.ok(own && wrong && header)
  const { contents, loader, watchFiles } = (await load({ path: own })) ?? {}
  assert.match(contents ?? '', /^export const k = defineKernel/m)
  assert.deepEqual([loader, watchFiles], ['js', [own, header]])
  assert.ok(!existsSync(join(folder, 'own.d.cu.ts')))
  const location = { file: wrong, line: 3, column: 9, lineText: '    *x = unknown;' }
  assert.deepEqual((await load({ path: wrong }))?.errors, [{ text: 'identifier "unknown" is undefined', location }])
})

test('options of other names are refused when the plug-in is made', () => {
  for (const make of [cuRollup, cuEsbuild]) {
    assert.throws(() => make({ architecture: 'sm_90' } as object), { code: 'ERR_INVALID_ARG_VALUE' })
    assert.throws(() => make({ declarations: 1 } as object), { code: 'ERR_INVALID_ARG_TYPE' })
  }
})

test('a file that is saved again while it is compiled is compiled again', { skip }, async () => {
  const folder = project()
  const file = join(folder, 'own.cu')
  const plugin = cuRollup()
  const load = plugin.load.call(new Context(), file)
  writeFileSync(file, '__global__ void later(int *x) { *x = 2; }\n')
  assert.match((await load)?.code ?? '', /^export const later = defineKernel/m)
  // Also where what is compiled first is wrong.
  writeFileSync(file, '__global__ void wrong(int *x) { *x = unknown; }\n')
  const again = plugin.load.call(new Context(), file)
  writeFileSync(file, '__global__ void right(int *x) { *x = 3; }\n')
  assert.match((await again)?.code ?? '', /^export const right = defineKernel/m)
})
