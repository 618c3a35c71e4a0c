/** Importing the package loads no native library and touches no GPU; both wait for the first use. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

interface Imported {
  readonly milliseconds: number
  readonly sharedObjects: readonly string[]
  readonly mapped: readonly string[]
  readonly openFiles: readonly string[]
  readonly modules: readonly string[]
  readonly resources: readonly string[]
}

const script = fileURLToPath(new URL('./import-child.js', import.meta.url))

function node(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): { stdout: string; milliseconds: number } {
  const start = performance.now()
  const child = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  })
  const milliseconds = performance.now() - start
  assert.equal(child.status, 0, child.stderr)
  assert.equal(child.stderr, '')
  return { stdout: child.stdout, milliseconds }
}

function imported(doors: readonly string[], env: Readonly<Record<string, string>> = {}): Imported {
  return JSON.parse(node([script, ...doors], env).stdout)
}

function assertNothingNative({ sharedObjects, mapped, openFiles, modules }: Imported): void {
  for (const list of [sharedObjects, mapped, openFiles, modules]) {
    assert.deepEqual(
      list.filter((entry) => /koffi|libcuda|nvcuda|nvidia|libcublas|libnccl/i.test(entry)),
      [],
    )
  }
  assert.ok(sharedObjects.length > 0, 'the report lists no shared objects, so their absence proves nothing')
}

describe('importing the package', () => {
  it('loads no native library and opens no device', () => {
    assertNothingNative(imported([]))
  })

  it('nor does the simulator', () => {
    assertNothingNative(imported(['cuda-streams/sim']))
  })

  it('nor do the doors to other libraries', () => {
    assertNothingNative(imported(['cuda-streams/cublas', 'cuda-streams/nccl']))
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
      imported([
        'cuda-streams/sim',
        'cuda-streams/cublas',
        'cuda-streams/nccl',
        'cuda-streams/timeline',
        'cuda-streams/sanitizer',
      ]).resources.filter((name) => lasting.test(name)),
      [],
    )
  })

  it('chooses no driver: a wrong choice is told at the first use', () => {
    assertNothingNative(
      imported(['cuda-streams/sim'], { CUDA_STREAMS_DRIVER: 'nonsense', CUDA_STREAMS_SIM_DEVICES: 'x' }),
    )
  })

  it('takes this long', (context) => {
    const least = (measure: () => number): number => Math.min(...Array.from({ length: 5 }, measure))
    const bare = least(() => node(['-e', '']).milliseconds)
    const withPackage = least(() => node(['--input-type=module', '-e', `import ${JSON.stringify(url)}`]).milliseconds)
    const within = least(() => imported([]).milliseconds)
    context.diagnostic(
      `node: ${bare.toFixed(1)} ms; with the package: ${(withPackage - bare).toFixed(1)} ms more; ` +
        `import() alone: ${within.toFixed(1)} ms`,
    )
  })
})

const url = import.meta.resolve('cuda-streams')
