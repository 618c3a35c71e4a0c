/**
 * The wings of src: which files of each the other wings may import, its face. layers.test.ts says in which direction. Biome has the same
 * table, so that an editor says it.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { root } from '../helpers/root.js'
import { importsOf } from './imports.js'

/** Of most wings the files that others may import; of those on which all stand, the files that they may not. */
type Wing = { readonly face: readonly string[] } | { readonly inner: readonly string[] }

const WINGS: Readonly<Record<string, Wing>> = {
  foundation: {
    inner: [
      'base/event-loop-in-page',
      'base/inspect-in-page',
      'base/node-modules-in-page',
      'base/once-in-all-threads-in-page',
      'native/cuda-headers',
      'native/memory-file-in-page',
      'native/nvrtc-in-page',
    ],
  },
  ptx: { face: ['block-machine', 'facts', 'ptx'] },
  cuda: { face: ['libcuda/libcuda', 'open'] },
  simulator: {
    face: [
      'compute-capability',
      'handles',
      'limits',
      'machine/chosen-scheduler',
      'machine/fault-plan',
      'machine/machine',
      'machine/machine-state',
      'machine/pools',
      'machine/random',
      'machine/scheduler',
      'machine/timed-scheduler',
      'machine/work',
      'sim-driver',
    ],
  },
  core: {
    inner: [
      'backends',
      'backends-in-bundle',
      'backends-in-page',
      'environment-interceptors-in-page',
      'graphs/conditionals',
      'graphs/graph-exec-impl',
      'kernels/condition',
      'kernels/launchable',
      'memory/out-of-memory',
      'memory/staging',
      'stream-ordering',
      'streams/awaited-uses',
      'streams/completion',
      'streams/host-function',
      'streams/other-copies',
      'sync-check',
    ],
  },
  libraries: {
    face: [
      'cublas/geam',
      'cublas/gemm-shape',
      'cublas/matrix-products',
      'cufft/fft',
      'cufft/fft-shape',
      'curand/random-generator',
      'dlpack/array-interface',
      'dlpack/exchange',
      'dlpack/tensor',
      'nccl/communicator',
      'nccl/group',
      'nccl/nccl-call',
      'nccl/nccl-library',
      'nvjpeg/jpeg-codec',
      'nvjpeg/jpeg-info',
      'nvjpeg/pixels',
      'onnx/onnx-library',
      'onnx/onnx-session',
      'onnx/tensors',
      'python/interpreter',
      'python/python',
      'python/python-object',
    ],
  },
  cu: {
    face: [
      'compile-cu',
      'compiled-cu',
      'compile-file',
      'cu-module',
      'cu-options',
      'diagnostics',
      'plugins',
      'register-hooks',
      'triton/compile-triton',
      'triton/compiled-triton',
      'webpack-loader',
      'write-changed',
    ],
  },
  tools: {
    face: [
      'explore/exploration',
      'explore/explore',
      'explore/run',
      'explore/search',
      'recording/recorder',
      'recording/recording-variable',
      'sanitizer/findings',
      'sanitizer/sanitizer',
      'sanitizer/sanitizer-variable',
      'timeline/bindings',
      'timeline/channels',
      'timeline/event-records',
      'timeline/kinds',
      'timeline/merged-traces',
      'timeline/spans',
      'timeline/summary',
      'timeline/svg',
      'timeline/timeline',
      'timeline/timeline-variable',
      'timeline/trace-events',
    ],
  },
  'entry-points': { face: [] },
}
/** Lines of a wing's README. */
const LONGEST_README = 40

const src = join(root, 'src')
const skip = existsSync(src) ? false : 'the sources are not here, only what was compiled of them'
const files = skip
  ? []
  : readdirSync(src, { recursive: true, encoding: 'utf8' })
      .map((name) => name.replaceAll('\\', '/'))
      .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))

const wingOf = (file: string): string => file.split('/')[0] ?? ''

/** May other wings import it? */
function isOfFace(file: string): boolean {
  const name = wingOf(file)
  const wing = WINGS[name] ?? assert.fail(`src/${name} is no wing`)
  const inside = file.slice(name.length + 1).replace(/\.ts$/, '')
  return 'face' in wing ? wing.face.includes(inside) : !wing.inner.includes(inside)
}

describe('the wings of src', { skip }, () => {
  it('are all that is there', () => {
    assert.deepEqual(readdirSync(src).sort(), Object.keys(WINGS).sort())
  })

  it('have files for others, and these alone are imported', () => {
    const across = files.flatMap((file) =>
      importsOf(file, readFileSync(join(src, file), 'utf8')).filter(({ from, to }) => wingOf(from) !== wingOf(to)),
    )
    const wrong = across.filter(({ to }) => !isOfFace(to)).map(({ from, to }) => `src/${from} imports ${to}`)
    assert.deepEqual(wrong, [], 'import a file of its face, or move what you need there')
    const used = new Set(across.map(({ to }) => to))
    const unused = files.filter((file) => wingOf(file) !== 'entry-points' && isOfFace(file) && !used.has(file))
    assert.deepEqual(unused, [], 'no other wing imports these: take them out of the face')
  })

  it('are the same to Biome', () => {
    const { overrides } = JSON.parse(readFileSync(join(root, 'biome.json'), 'utf8'))
    const ofSrc = overrides.find(({ includes }: { includes: string[] }) => String(includes) === 'src/**')
    const { patterns } = ofSrc.linter.rules.style.noRestrictedImports.options
    const expected = Object.entries(WINGS).map(([name, wing]) =>
      'face' in wing
        ? [`**/${name}/**`, ...wing.face.map((file) => `!**/${name}/${file}.js`)]
        : wing.inner.map((file) => `**/${name}/${file}.js`),
    )
    assert.deepEqual(
      patterns.map(({ group }: { group: string[] }) => group),
      expected,
    )
  })

  for (const [name, wing] of Object.entries(WINGS)) {
    it(`say what they are for: ${name}`, () => {
      const text = readFileSync(join(src, name, 'README.md'), 'utf8')
      assert.ok(
        text.split('\n').length <= LONGEST_README,
        `src/${name}/README.md is longer than ${LONGEST_README} lines`,
      )
      for (const part of ['Its face', 'on its way through it', 'It must not know'])
        assert.ok(text.includes(part), `src/${name}/README.md says nothing under '${part}'`)
      const few = 'face' in wing && wing.face.length <= 10 ? wing.face : []
      assert.deepEqual(
        few.filter((file) => !text.includes(`(${file}.ts)`)),
        [],
        `files of its face that src/${name}/README.md does not name`,
      )
    })
  }
})
