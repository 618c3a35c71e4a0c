/**
 * Both lines of a report are the program's own, however the program is run: the package linked or copied, plain JavaScript,
 * TypeScript, through a loader, in a worker, in a vm module, in a bundle with a source map, on Bun and on Deno.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'own-lines-'))
after(() => rmSync(folder, { recursive: true }))
const write = (name: string, text: string): void => writeFileSync(join(folder, name), text)

const [EARLIER, LATER] = [7, 10]
const PROGRAM = `import { Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
const [device] = simulate().devices; const sanitizer = Sanitizer.start({ device })
const left = new Stream({ device }); const right = new Stream({ device }); const data = device.alloc(16); device.synchronize()
function earlier() {
  left.fill(data, 1)
}
function later() {
  right.fill(data, 2)
}
earlier()
later()
console.log(JSON.stringify([sanitizer.reports[0].first.stack, sanitizer.reports[0].second.stack]))
`
/** Each line and column is that of the same in program.ts, five lines further down. */
const mapped = (file: string): string => {
  const lines = PROGRAM.split('\n').length
  const map = { version: 3, sources: [file], names: [], mappings: ['AAKA', ...Array(lines).fill('AACA')].join(';') }
  return `\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(JSON.stringify(map)).toString('base64')}\n`
}

for (const [name, link] of [
  ['linked', true],
  ['copied', false],
] as const) {
  const target = join(folder, name, 'node_modules', 'cuda-streams')
  mkdirSync(join(folder, name, 'node_modules'), { recursive: true })
  if (link) symlinkSync(root, target)
  else
    for (const part of ['dist/src', 'package.json']) cpSync(join(root, part), join(target, part), { recursive: true })
  write(`${name}/package.json`, '{ "type": "module" }')
  write(`${name}/program.js`, PROGRAM)
  write(`${name}/program.ts`, PROGRAM)
  write(`${name}/mapped.js`, PROGRAM + mapped('program.ts'))
  write(
    `${name}/worker.js`,
    "import { Worker } from 'node:worker_threads'; new Worker(new URL('program.js', import.meta.url))",
  )
  write(`${name}/loader.js`, "import { register } from 'node:module'; register('./hooks.js', import.meta.url)")
  write(
    `${name}/hooks.js`,
    `export async function load(url, context, next) {
  if (!url.endsWith('program.ts')) return next(url, context)
  return { format: 'module', shortCircuit: true, source: ${JSON.stringify(PROGRAM + mapped('program.ts'))} }
}
`,
  )
  write(
    `${name}/vm.js`,
    `import { readFileSync } from 'node:fs'
import vm from 'node:vm'
const identifier = new URL('program.js', import.meta.url).href
const program = new vm.SourceTextModule(readFileSync(new URL(identifier), 'utf8'), { identifier })
await program.link(async (name) => {
  const found = await import(name)
  const names = Object.keys(found)
  return new vm.SyntheticModule(names, function () {
    for (const each of names) this.setExport(each, found[each])
  })
})
await program.evaluate()
`,
  )
}

/** As `npm run test:matrix` has installed it. */
function toolOf(name: string, path: string): string | undefined {
  const cache = join(root, '.cache')
  const folders = existsSync(cache) ? readdirSync(cache).filter((each) => each.startsWith(`${name}-`)) : []
  return folders.map((each) => join(cache, each, 'node_modules', path)).find(existsSync)
}
const bun = toolOf('bun', '@oven/bun-linux-x64/bin/bun')
const deno = toolOf('deno', '@deno/linux-x64-glibc/deno')
const NODE = 'bun' in process.versions || 'deno' in process.versions ? undefined : process.execPath
const runsTypeScript = Boolean(Reflect.get(process.features, 'typescript'))

interface Way {
  readonly run: readonly [tool: string | undefined, ...args: string[]]
  readonly file: string
  /** How many lines further down than in the program that is written. */
  readonly shift?: number
  readonly skip?: string | false
}

const WAYS: Readonly<Record<string, Way>> = {
  JavaScript: { run: [NODE, 'program.js'], file: 'program.js' },
  '--preserve-symlinks': { run: [NODE, '--preserve-symlinks', 'program.js'], file: 'program.js' },
  '--enable-source-maps, without a map': { run: [NODE, '--enable-source-maps', 'program.js'], file: 'program.js' },
  '--enable-source-maps': { run: [NODE, '--enable-source-maps', 'mapped.js'], file: 'program.ts', shift: 5 },
  'TypeScript of a loader': {
    run: [NODE, '--no-warnings', '--enable-source-maps', '--import', './loader.js', 'program.ts'],
    file: 'program.ts',
    shift: 5,
  },
  'TypeScript of Node': {
    run: [NODE, '--no-warnings', 'program.ts'],
    file: 'program.ts',
    skip: (NODE === undefined && 'it is not here') || (!runsTypeScript && 'this Node runs no TypeScript'),
  },
  'a text': { run: [NODE, '--input-type=module', '-e', PROGRAM], file: '[eval1]' },
  'a worker': { run: [NODE, 'worker.js'], file: 'program.js' },
  'a vm module': { run: [NODE, '--no-warnings', '--experimental-vm-modules', 'vm.js'], file: 'program.js' },
  Bun: { run: [bun, 'program.js'], file: 'program.js' },
  'Bun, TypeScript': { run: [bun, 'program.ts'], file: 'program.ts' },
  Deno: { run: [deno, 'run', '-A', 'program.js'], file: 'program.js' },
  'Deno, TypeScript': { run: [deno, 'run', '-A', 'program.ts'], file: 'program.ts' },
}

function check(
  [tool = '', ...args]: readonly [string | undefined, ...string[]],
  cwd: string,
  file: string,
  shift = 0,
): void {
  const { stdout, stderr } = spawnSync(tool, args, { cwd, encoding: 'utf8' })
  const stacks: unknown = stdout === '' ? stderr : JSON.parse(stdout)
  assert.ok(Array.isArray(stacks), stderr)
  for (const [index, row] of [EARLIER, LATER].entries()) {
    const [line, ...others]: string[] = stacks[index]
    assert.match(String(line), new RegExp(`/${file.replaceAll(/[[\].]/g, '\\$&')}:${row + shift}:`))
    for (const other of others) assert.doesNotMatch(other, /dist\/src/)
  }
}

for (const name of ['linked', 'copied']) {
  describe(`the package is ${name}: both lines are the program's`, () => {
    for (const [way, { run, file, shift, skip = run[0] === undefined && 'it is not here' }] of Object.entries(WAYS)) {
      it(way, { skip }, () => check(run, join(folder, name), file, shift))
    }
    for (const [kind, options] of Object.entries({
      'with the library in it': [],
      'that is minified': ['--minify'],
      'with the library outside': ['--packages=external'],
    })) {
      const skip = (bun === undefined || NODE === undefined) && 'the bundler of Bun is not here'
      it(`a bundle with a source map ${kind}`, { skip }, () => {
        const cwd = join(folder, name)
        const build = ['build', 'program.ts', '--target=node', '--sourcemap=linked', '--outdir', 'out', ...options]
        execFileSync(String(bun), build, { cwd, stdio: 'pipe' })
        check([NODE, '--enable-source-maps', 'out/program.js'], cwd, 'program.ts')
      })
    }
  })
}
