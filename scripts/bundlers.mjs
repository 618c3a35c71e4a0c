// Bundles a small program with each of the common bundlers, and runs it: the table of docs/requirements.md. After `npm run build`. It installs
// the bundlers into a temporary folder.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = mkdtempSync(join(tmpdir(), 'bundlers-'))

const PROGRAM = `import 'cuda-streams/sanitizer'
import { Device, Stream } from 'cuda-streams'
import { Timeline } from 'cuda-streams/timeline'

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
console.log('ran')
`

/** Each bundler's packages, files of configuration, command, and what it writes. */
const BUNDLERS = {
  esbuild: {
    packages: ['esbuild'],
    command: 'esbuild program.js --bundle --platform=node --format=esm --sourcemap --outfile=out/esbuild.mjs',
    output: 'out/esbuild.mjs',
  },
  rollup: {
    packages: ['rollup', '@rollup/plugin-node-resolve'],
    command: 'rollup program.js --plugin node-resolve --sourcemap --file out/rollup.mjs',
    output: 'out/rollup.mjs',
  },
  vite: {
    packages: ['vite'],
    files: {
      'vite.config.js': `export default {
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
    files: {
      'webpack.config.js': `export default {
  mode: 'production',
  target: 'node20',
  devtool: 'source-map',
  entry: './program.js',
  experiments: { outputModule: true },
  output: { path: import.meta.dirname + '/out', filename: 'webpack.mjs', module: true, chunkFormat: 'module' },
  module: { parser: { javascript: { createRequire: false, importMeta: false } } },
}
`,
    },
    command: 'webpack',
    output: 'out/webpack.mjs',
  },
}

function run(command, env = {}) {
  return spawnSync('bash', ['-c', `PATH="$PWD/node_modules/.bin:$PATH"; ${command}`], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim', ...env },
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
  const [{ filename }] = JSON.parse(must(`npm pack '${root}' --ignore-scripts --json`))
  const packages = Object.values(BUNDLERS).flatMap((bundler) => bundler.packages)
  must(`npm install ./${filename} ${packages.join(' ')}`)
  for (const [name, { files = {}, command, output, packages }] of Object.entries(BUNDLERS)) {
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
    must(command)
    rmSync(join(folder, 'page.html'), { force: true })
    const wrapped = { CUDA_STREAMS_SANITIZER: '1', CUDA_STREAMS_TIMELINE: 'run.html' }
    const { stdout, stderr } = run(`node --enable-source-maps ${output}`, wrapped)
    const found = {
      runs: stdout === 'ran\n',
      page: existsSync(join(folder, 'page.html')),
      CUDA_STREAMS_TIMELINE: existsSync(join(folder, 'run.html')),
      CUDA_STREAMS_SANITIZER: stderr.includes('Race: nothing orders two accesses'),
      "the program's lines in stacks": /writes on .*\n +at [^\n]*program\.js:\d+:\d+/.test(stderr),
    }
    rmSync(join(folder, 'run.html'), { force: true })
    const version = JSON.parse(must(`cat node_modules/${packages[0]}/package.json`)).version
    const faults = Object.entries(found).flatMap(([what, good]) => (good ? [] : [what]))
    console.log(
      `${name} ${version}: ${faults.length === 0 ? 'all is well' : `NOT ${faults.join(', ')}\n${stdout}${stderr}`}`,
    )
    if (faults.length > 0) process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
