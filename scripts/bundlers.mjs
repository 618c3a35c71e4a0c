// Bundles a small program with each of the common bundlers, and runs it: the table of docs/requirements.md. After `npm run build`. It installs
// the bundlers into a temporary folder.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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

/** Each bundler's packages, and what it writes. The command and the files of configuration are those of the page. */
const BUNDLERS = {
  esbuild: { packages: ['esbuild'], output: 'out/esbuild.mjs' },
  rollup: { packages: ['rollup', '@rollup/plugin-node-resolve'], output: 'out/rollup.mjs' },
  vite: { packages: ['vite'], output: 'out/vite/program.js' },
  webpack: { packages: ['webpack', 'webpack-cli'], output: 'out/webpack.mjs' },
}

const page = readFileSync(join(root, 'docs', 'requirements.md'), 'utf8')
/** The first code of the bundler's row. */
const commandOf = (name) => new RegExp(`^\\| ${name} [\\d.]+ +\\| \`(.*?)\``, 'im').exec(page)[1]
/** The blocks of code that have the name of a file before them. */
const FILES = [...page.matchAll(/^`([\w.]+\.js)`:\n\n```javascript\n(.*?)^```/gms)]

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
  return stdout + stderr
}

try {
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  writeFileSync(join(folder, 'program.js'), PROGRAM)
  const [{ filename }] = JSON.parse(run(`npm pack '${root}' --ignore-scripts --json`).stdout)
  const packages = Object.values(BUNDLERS).flatMap((bundler) => bundler.packages)
  must(`npm install ./${filename} ${packages.join(' ')}`)
  for (const [, file, text] of FILES) writeFileSync(join(folder, file), text)
  for (const [name, { output, packages }] of Object.entries(BUNDLERS)) {
    const printed = must(commandOf(name))
    rmSync(join(folder, 'page.html'), { force: true })
    const wrapped = { CUDA_STREAMS_SANITIZER: '1', CUDA_STREAMS_TIMELINE: 'run.html' }
    const { stdout, stderr } = run(`node --enable-source-maps ${output}`, wrapped)
    const found = {
      runs: stdout === 'ran\n',
      'bundles without a warning': !/\(!\)|warning/i.test(printed),
      page: existsSync(join(folder, 'page.html')),
      CUDA_STREAMS_TIMELINE: existsSync(join(folder, 'run.html')),
      CUDA_STREAMS_SANITIZER: stderr.includes('Race: nothing orders two accesses'),
      "the program's lines in stacks": /writes on .*\n +at [^\n]*program\.js:\d+:\d+/.test(stderr),
    }
    rmSync(join(folder, 'run.html'), { force: true })
    const version = JSON.parse(must(`cat node_modules/${packages[0]}/package.json`)).version
    const faults = Object.entries(found).flatMap(([what, good]) => (good ? [] : [what]))
    console.log(
      `${name} ${version}: ${faults.length === 0 ? 'all is well' : `NOT ${faults.join(', ')}\n${printed}${stdout}${stderr}`}`,
    )
    if (faults.length > 0) process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
