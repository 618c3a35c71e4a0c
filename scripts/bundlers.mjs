// Bundles a small program with each of the common bundlers, and runs it: the list of docs/guides/requirements.md. It imports a kernel in CUDA C++,
// by the configuration of docs/guides/cu.md, so NVRTC has to be here. After `npm run build`. It installs the bundlers into a temporary folder.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RUN_TIMES } from './run-times.mjs'
import { root } from './test-files.mjs'

const NVRTC = join(root, '.cache', 'cuda-toolkit', 'nvidia', 'cu13', 'lib')
const folder = mkdtempSync(join(tmpdir(), 'bundlers-'))

const KERNEL = `__global__ void axpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i]; // only in the source
}
`

const PROGRAM = `import 'cuda-streams/sanitizer'
import { Device, Stream } from 'cuda-streams'
import { Timeline } from 'cuda-streams/timeline'
import { axpy } from './axpy.cu'

const device = Device.get()
const [first, second] = [new Stream({ device }), new Stream({ device })]
const buffer = device.alloc(16, { stream: first })
function mistake() {
  first.fill(buffer, 7)
  second.fill(buffer, 8)
}
const timeline = await Timeline.record(async () => {
  mistake()
  await device.finished()
})
await timeline.save('page.html')
const [x, y] = [first.bufferFrom(Float32Array.of(1, 2, 3)), first.bufferFrom(Float32Array.of(1, 1, 1))]
console.log('ran', String(await first.launch(axpy, { threads: 3 }, 3, 10, x, y).download(y, Float32Array)))
`

/** What needs no driver does not bring the drivers along. */
const LAYOUT = `import { struct } from 'cuda-streams'
console.log(struct({ x: 'f32' }))
`
/** These keep what the entry point imports for its effect, though the package says that the entry point has none. */
const KEEPS_ALL = ['esbuild', 'bun']

const USE_CU = { test: /\.cu$/, type: 'javascript/auto', use: 'cuda-streams/cu/webpack-loader' }
const webpackConfig = (name) => `export default {
  mode: 'production',
  target: 'node20',
  devtool: 'source-map',
  entry: './program.js',
  experiments: { outputModule: true },
  output: { path: import.meta.dirname + '/out', filename: '${name}.mjs', module: true, chunkFormat: 'module' },
  module: {
    parser: { javascript: { createRequire: false, importMeta: false } },
    rules: [{ test: ${USE_CU.test}, type: '${USE_CU.type}', use: '${USE_CU.use}' }],
  },
}
`
const { binary: bunBinary, package: bunPackage, version: bunVersion } = RUN_TIMES.find(({ name }) => name === 'bun')

/** Each bundler's packages, its configuration, its command, and what that writes. */
const BUNDLERS = {
  esbuild: {
    packages: ['esbuild'],
    files: {
      'esbuild.config.js': `import { cuEsbuild } from 'cuda-streams/cu'
import { build } from 'esbuild'

await build({
  entryPoints: ['program.js'],
  bundle: true,
  platform: 'node',
  format: 'esm',
  sourcemap: true,
  outfile: 'out/esbuild.mjs',
  plugins: [cuEsbuild()],
})
`,
    },
    command: 'node esbuild.config.js',
    output: 'out/esbuild.mjs',
  },
  rollup: {
    packages: ['rollup', '@rollup/plugin-node-resolve'],
    files: {
      'rollup.config.js': `import nodeResolve from '@rollup/plugin-node-resolve'
import { cuRollup } from 'cuda-streams/cu'

export default {
  input: 'program.js',
  output: { file: 'out/rollup.mjs', sourcemap: true },
  plugins: [cuRollup(), nodeResolve()],
}
`,
    },
    command: 'rollup --config',
    output: 'out/rollup.mjs',
  },
  rolldown: {
    packages: ['rolldown'],
    files: {
      'rolldown.config.js': `import { cuRollup } from 'cuda-streams/cu'

export default {
  input: 'program.js',
  platform: 'node',
  output: { file: 'out/rolldown.mjs', sourcemap: true },
  plugins: [cuRollup()],
}
`,
    },
    command: 'rolldown --config',
    output: 'out/rolldown.mjs',
  },
  vite: {
    packages: ['vite'],
    files: {
      'vite.config.js': `import { cuRollup } from 'cuda-streams/cu'

export default {
  plugins: [cuRollup()],
  build: { ssr: 'program.js', outDir: 'out/vite', sourcemap: true },
  ssr: { noExternal: ['cuda-streams'] },
}
`,
    },
    command: 'vite build',
    output: 'out/vite/program.js',
  },
  webpack: {
    packages: ['webpack', 'webpack-cli'],
    files: { 'webpack.config.js': webpackConfig('webpack') },
    command: 'webpack',
    output: 'out/webpack.mjs',
  },
  rspack: {
    packages: ['@rspack/core', '@rspack/cli'],
    files: { 'rspack.config.js': webpackConfig('rspack') },
    command: 'rspack build',
    output: 'out/rspack.mjs',
  },
  bun: {
    packages: [`${bunPackage}@${bunVersion}`],
    files: {
      'bun-build.js': `import { cuEsbuild } from 'cuda-streams/cu'

const { success, logs } = await Bun.build({
  entrypoints: ['program.js'],
  target: 'node',
  conditions: ['module'],
  sourcemap: 'linked',
  outdir: 'out/bun',
  plugins: [cuEsbuild()],
})
if (!success) throw new AggregateError(logs)
`,
    },
    command: `node_modules/${bunPackage}/${bunBinary} bun-build.js`,
    output: 'out/bun/program.js',
  },
}

function run(command, env = {}) {
  return spawnSync('bash', ['-c', `PATH="$PWD/node_modules/.bin:$PATH"; ${command}`], {
    cwd: folder,
    encoding: 'utf8',
    env: {
      ...process.env,
      ...(existsSync(NVRTC) && { CUDA_STREAMS_NVRTC: NVRTC }),
      CUDA_STREAMS_DRIVER: 'sim',
      ...env,
    },
  })
}

function must(command) {
  const { status, stdout, stderr } = run(command)
  if (status !== 0) throw new Error(`${command}\n${stdout}${stderr}`)
  return stdout
}

try {
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  writeFileSync(join(folder, 'program.js'), PROGRAM)
  writeFileSync(join(folder, 'axpy.cu'), KERNEL)
  const [{ filename }] = JSON.parse(must(`npm pack '${root}' --ignore-scripts --json`))
  const packages = Object.values(BUNDLERS).flatMap((bundler) => bundler.packages)
  must(`npm install ./${filename} ${packages.join(' ')}`)
  for (const [name, { files = {}, command, output, packages }] of Object.entries(BUNDLERS)) {
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
    const printed = must(command)
    rmSync(join(folder, 'page.html'), { force: true })
    const wrapped = { CUDA_STREAMS_SANITIZER: '1', CUDA_STREAMS_TIMELINE: 'run.html' }
    const { stdout, stderr } = run(`node --enable-source-maps ${output}`, { ...wrapped, CUDA_STREAMS_NVRTC: 'nowhere' })
    const found = {
      runs: stdout === 'ran 11,21,31\n',
      'bundles without a warning': !/\(!\)|warning/i.test(printed),
      'no source of kernels': !readFileSync(join(folder, output), 'utf8').includes('only in the source'),
      page: existsSync(join(folder, 'page.html')),
      CUDA_STREAMS_TIMELINE: existsSync(join(folder, 'run.html')),
      CUDA_STREAMS_SANITIZER: stderr.includes('Race: nothing orders two accesses'),
      "the program's lines in stacks": /writes on .*\n +at [^\n]*program\.js:\d+:\d+/.test(stderr),
    }
    rmSync(join(folder, 'run.html'), { force: true })
    writeFileSync(join(folder, 'program.js'), LAYOUT)
    must(command)
    writeFileSync(join(folder, 'program.js'), PROGRAM)
    const kilobytes = Math.round(statSync(join(folder, output)).size / 1000)
    if (!KEEPS_ALL.includes(name)) found[`${kilobytes} kB for struct() alone`] = kilobytes < 60
    const version = JSON.parse(
      must(`cat node_modules/${packages[0].replace(/(.)@[\d.]+$/, '$1')}/package.json`),
    ).version
    const faults = Object.entries(found).flatMap(([what, good]) => (good ? [] : [what]))
    console.log(
      `${name} ${version}: ${faults.length === 0 ? 'all is well' : `NOT ${faults.join(', ')}\n${printed}${stdout}${stderr}`}`,
    )
    if (faults.length > 0) process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
