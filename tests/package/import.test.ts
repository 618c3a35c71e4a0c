/** Importing the package loads no native library and touches no GPU; both wait for the first use. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { root } from '../helpers/root.js'
import { runsModule } from '../helpers/run-time.js'

interface Imported {
  readonly sharedObjects: readonly string[]
  readonly mapped: readonly string[]
  readonly openFiles: readonly string[]
  readonly modules: readonly string[]
  readonly resources: readonly string[]
}

/** All but those of files of CUDA C++ and of Jest, which are for tools. */
const ENTRY_POINTS = Object.keys(
  (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly exports: object }).exports,
)
  .filter((name) => !/^\.\/(cu(\/|$)|jest|package)/.test(name))
  .map((name) => `cuda-streams${name.slice(1)}`)

const script = fileURLToPath(new URL('./import-child.js', import.meta.url))

function imported(entryPoints: readonly string[], env: Readonly<Record<string, string>> = {}): Imported {
  const child = spawnSync(process.execPath, [script, ...entryPoints], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  })
  assert.equal(child.status, 0, child.stderr)
  assert.equal(child.stderr, '')
  return JSON.parse(child.stdout)
}

function assertNothingNative({ sharedObjects, mapped, openFiles, modules }: Imported): void {
  for (const list of [sharedObjects, mapped, openFiles, modules]) {
    assert.deepEqual(
      // On Bun and Deno the modules are those of the package too.
      list.filter((entry) => !entry.includes('/dist/src/') && /dist\/native|libcu|nvcuda|nvidia|libnccl/i.test(entry)),
      [],
    )
  }
  assert.ok(
    sharedObjects.length + mapped.length > 0,
    'the report lists no shared objects, so their absence proves nothing',
  )
}

describe('importing the package', () => {
  it('loads no native library and opens no device', () => {
    assertNothingNative(imported([]))
  })

  it('nor does the simulator', () => {
    assertNothingNative(imported(['cuda-streams/sim']))
  })

  it('nor do the entry points to other libraries', () => {
    assertNothingNative(imported(ENTRY_POINTS))
  })

  it('nor does the timeline', () => {
    assertNothingNative(imported(['cuda-streams/timeline'], { CUDA_STREAMS_TIMELINE: 'never-written.html' }))
  })

  it('nor does the sanitizer', () => {
    assertNothingNative(imported(['cuda-streams/sanitizer'], { CUDA_STREAMS_SANITIZER: '1' }))
  })

  it('leaves nothing running', () => {
    const lasting = /Timeout|Immediate|Worker|MessagePort|Poll|Signal/
    assert.deepEqual(
      imported(ENTRY_POINTS).resources.filter((name) => lasting.test(name)),
      [],
    )
  })

  it('chooses no driver: a wrong choice is told at the first use', () => {
    assertNothingNative(
      imported(['cuda-streams/sim'], { CUDA_STREAMS_DRIVER: 'nonsense', CUDA_STREAMS_SIM_DEVICES: 'x' }),
    )
  })

  it('reads few files, and neither of the drivers', () => {
    const files = staticallyImported(fileURLToPath(url))
    const names = [...files.keys()].map((path) => path.slice(path.lastIndexOf('/src/') + '/src/'.length))
    assert.deepEqual(
      names.filter((name) => /^(cuda|simulator)\//.test(name)),
      ['simulator/limits.js'],
    )
    const bytes = [...files.values()].reduce((sum, text) => sum + text.length, 0)
    // Each file takes a third of a millisecond. `node scripts/import-time.mjs` measures the whole. Two of them, stream-ordering.js and
    // streams/completion.js, are what the methods of stream.js do. stream-pool.js, memory/opaque-array.js, memory/texture-object.js and
    // tensor-map.js, with the rules of tensor-maps.js, are classes that index.js exports. The way out of a full queue needs deadlocks.js, and
    // where an object was closed closing-places.js.
    assert.ok(files.size <= 89 && bytes <= 665_000, `${files.size} files, ${bytes} characters`)
    assert.ok(files.size > 20, `only ${files.size} files: the reader of imports has missed some`)
  })

  it('of the simulator leaves the compiler of PTX for the first module of PTX', () => {
    const files = [...staticallyImported(fileURLToPath(import.meta.resolve('cuda-streams/sim'))).keys()]
    assert.ok(files.some((path) => path.endsWith('load-ptx.js')))
    assert.deepEqual(
      files.filter((path) => /[\\/]src[\\/]ptx[\\/]/.test(path)),
      [],
    )
  })

  it('and a simulation without kernels makes no memory for compiled ones', () => {
    const program = `
      const { Memory } = WebAssembly
      let made = 0
      WebAssembly.Memory = class extends Memory { constructor(given) { super(given); made += 1 } }
      const { simulate } = await import('cuda-streams/sim')
      const { Module } = await import('cuda-streams')
      const [device] = simulate().devices
      device.createStream().fill(device.alloc(8), 1).synchronize()
      const before = made
      Module.load(${JSON.stringify(PTX)}, { device })
      console.log(before, made > before)`
    const { stdout, stderr } = spawnSync(process.execPath, runsModule(program), { encoding: 'utf8', cwd: root })
    assert.equal(stdout, '0 true\n', stderr)
  })
})

const PTX = '.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }'
const url = import.meta.resolve('cuda-streams')

/** The texts of the files that are read when this one is imported. */
function staticallyImported(path: string, found = new Map<string, string>()): ReadonlyMap<string, string> {
  if (found.has(path)) return found
  const text = readFileSync(path, 'utf8')
  found.set(path, text)
  for (const [, name = ''] of text.matchAll(/^(?:import|export)\b[^;'"=]*?['"]([.#][^'"]+)['"]/gm)) {
    const next = name.startsWith('#') ? fileURLToPath(import.meta.resolve(name)) : join(dirname(path), name)
    staticallyImported(next, found)
  }
  return found
}
