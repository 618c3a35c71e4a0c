/** Threads and blocks that wait for each other: every thread gets its turn, and whoever waits in vain is reported. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { KernelFinding } from '../../src/ptx/faults.js'
import { faultOf } from './faults.js'
import { kernelTest } from './kernel-test.js'
import { integers, Machine } from './machine.js'

function choices(seed: number): (count: number) => number {
  let state = seed
  return (count) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return (state >> 8) % count
  }
}

kernelTest('waiting', 'spin_lock', ({ launch }) => {
  const [lock, sum] = [new Int32Array(1), new Int32Array(1)]
  launch({ grid: 3, block: 40 }, lock, sum, 5)
  assert.equal(sum[0], 600)
})

for (const seed of [1, 2, 3]) {
  kernelTest('waiting', 'wait_for_block', ({ launch }) => {
    const [flag, out] = [new Int32Array(1), new Int32Array(32)]
    launch({ grid: 5, block: 32, choose: choices(seed) }, flag, out)
    assert.deepEqual(out, new Int32Array(32).fill(42))
  })
}

kernelTest('waiting', 'grid_sync', ({ launch }) => {
  const n = 600
  const [a, b] = [integers(n, 100), new Int32Array(n)]
  const expected = { a: a.slice(), b: b.slice() }
  for (let round = 0; round < 3; round++) {
    expected.b = expected.b.map((_, i) => (expected.a[n - 1 - i] ?? 0) + 1)
    expected.a = expected.a.map((_, i) => (expected.b[(i + 1) % n] ?? 0) * 2)
  }
  launch({ grid: 10, block: 64, cooperative: true, budget: 1000, choose: choices(7) }, a, b, n)
  assert.deepEqual({ a, b }, expected)
})

kernelTest(
  'waiting',
  'grid_sync',
  ({ launch }) => {
    // A launch that is not cooperative has no workspace for the barrier: the kernel's own check traps.
    const fault = faultOf(() => launch({ grid: 2, block: 64 }, new Int32Array(128), new Int32Array(128), 128))
    assert.equal(fault.code, 'CUDA_ERROR_LAUNCH_FAILED')
  },
  { gpu: 'not played' },
)

kernelTest('waiting', 'tiles', ({ launch }) => {
  const [values, out] = [integers(64, 100), new Int32Array(64)]
  launch({ block: 64 }, values, out)
  const sums = Array.from({ length: 64 }, (_, t) => values.slice(t & ~7, (t & ~7) + 8).reduce((a, b) => a + b))
  let leaders = 0
  for (let t = 0; t < 64; t++) {
    const any = sums.slice(t & 32, (t & 32) + 32).some((sum) => sum > 400)
    const expected = (sums[t] ?? 0) * 10 + (t >> 3) + (any ? 100000 : 0)
    const rest = (out[t] ?? 0) - expected
    assert.ok(rest === 0 || (rest === 1000000 && t % 3 === 0))
    if (rest !== 0) leaders++
  }
  assert.ok(leaders >= 2)
})

kernelTest('waiting', 'named_barriers', ({ launch }) => {
  const [values, out] = [integers(128, 1000), new Int32Array(64)]
  launch({ block: 128 }, values, out)
  for (let t = 0; t < 64; t++) assert.equal(out[t], 2 * (values[127 - t] ?? 0))
})

kernelTest('waiting', 'early_exit', ({ launch }) => {
  const [values, out] = [integers(128, 1000), new Int32Array(128)]
  launch({ block: 128 }, values, out, 70)
  for (let t = 0; t < 128; t++) assert.equal(out[t], t < 70 ? values[69 - t] : 0)
})

kernelTest(
  'waiting',
  'diverged',
  ({ launch }) => {
    const [values, out] = [integers(64, 1000), new Int32Array(64)]
    launch({ block: 64 }, values, out)
    const after = values.map((value) => {
      let v = value
      if (v & 1) for (let i = 0, loops = v & 7; i < loops; i++) v = (Math.imul(v, 3) + 1) | 0
      return v
    })
    for (let t = 0; t < 64; t++) {
      const next = (t & 31) === 31 ? t : t + 1
      assert.equal(out[t], ((after[t] ?? 0) + (after[next] ?? 0)) | 0)
    }
  },
  { gpu: 'not played' },
)

kernelTest(
  'waiting',
  'never_ends',
  ({ launch }) => {
    const fault = faultOf(() => launch({ grid: 2, block: 64, instructionLimit: 1e6 }, new Int32Array(1)))
    assert.equal(fault.code, 'CUDA_ERROR_LAUNCH_TIMEOUT')
    assert.ok(fault.line > 0)
  },
  { gpu: 'not played' },
)

kernelTest(
  'waiting',
  'bad_barrier',
  ({ launch }) => {
    const findings: KernelFinding[] = []
    const fault = faultOf(() => launch({ block: 64, report: (finding) => findings.push(finding) }, new Int32Array(64)))
    assert.equal(fault.code, 'CUDA_ERROR_LAUNCH_TIMEOUT')
    assert.match(fault.message, /16 threads \(0, …\) at 'bar.sync'.*48 threads have ended/)
    assert.deepEqual(
      findings.map(({ kind }) => kind),
      ['diverging-barrier'],
    )
  },
  { gpu: 'not played' },
)

kernelTest(
  'waiting',
  'shared_race',
  ({ launch }) => {
    const findings: KernelFinding[] = []
    launch({ block: 64, checked: true, report: (finding) => findings.push(finding) }, new Int32Array(64))
    assert.equal(findings[0]?.kind, 'shared-memory-race')
    assert.equal(findings[0]?.threads.length, 2)
  },
  { gpu: 'not played' },
)

kernelTest('waiting', 'named_barriers', ({ launch }) => {
  const findings: KernelFinding[] = []
  const options = { block: 128, checked: true, report: (finding: KernelFinding) => findings.push(finding) }
  launch(options, integers(128, 1000), new Int32Array(64))
  assert.deepEqual(findings, [])
})

/** Threads below a number wait at one barrier, the others at another one of the same number. */
const fromTwoLines = (barrier: string): string => `.version 8.0
.target sm_80
.address_size 64
.visible .entry meet(.param .u32 below)
{
  .reg .b32 %t, %below; .reg .pred %p;
  ld.param.u32 %below, [below];
  mov.u32 %t, %tid.x;
  setp.lt.u32 %p, %t, %below;
  @%p bra FIRST;
  ${barrier}
  bra END;
FIRST:
  ${barrier}
END:
  ret;
}`

for (const [barrier, below, kinds] of [
  ['bar.sync 5, 96;', 32, []],
  ['bar.sync 5, 96;', 64, []],
  ['bar.sync 5, 96;', 48, ['diverging-barrier']],
  ['barrier.sync 5, 96;', 48, ['diverging-barrier']],
  ['bar.sync 5;', 32, ['diverging-barrier']],
  ['bar.sync 0;', 32, ['diverging-barrier']],
] as const) {
  const found = kinds.length === 0 ? 'is how warps of two roles meet' : 'is found'
  it(`'${barrier}' in two lines, in one of them threads below ${below}, ${found}`, () => {
    const machine = new Machine()
    const findings: KernelFinding[] = []
    const module = machine.load(fromTwoLines(barrier))
    const report = (finding: KernelFinding): void => void findings.push(finding)
    machine.run(module, 'meet', { block: 96, checked: true, report }, [below])
    assert.deepEqual(
      findings.map(({ kind }) => kind),
      kinds,
    )
  })
}

kernelTest(
  'waiting',
  'async_copy',
  ({ launch }) => {
    const n = 230
    const [values, out] = [Float32Array.from(integers(4 * 256, 1000)), new Float32Array(4 * 256)]
    launch({ grid: 2, block: 64 }, values, out, n)
    for (let i = 0; i < 256; i++) {
      const from = (i & ~63) + 63 - (i & 63)
      for (let part = 0; part < 4; part++) {
        const there = (i & 64) === 0 || from < n
        assert.equal(out[4 * i + part], there ? values[4 * from + part] : 0)
      }
    }
  },
  { architectures: [90] },
)

kernelTest(
  'waiting',
  'barrier_objects',
  ({ launch }) => {
    const [values, out] = [integers(64, 1000), new Int32Array(192)]
    launch({ block: 64 }, values, out)
    for (let t = 0; t < 192; t++) assert.equal(out[t], (values[63 - (t % 64)] ?? 0) + Math.floor(t / 64))
  },
  { architectures: [90] },
)

kernelTest(
  'waiting',
  'reduce_add',
  ({ launch }) => {
    const [values, out] = [integers(32, 1000), new Int32Array(96)]
    launch({ block: 32 }, values, out)
    assert.equal(
      out[5],
      values.reduce((a, b) => a + b),
    )
    assert.equal(out[37], Math.max(...values))
    assert.equal(
      out[69],
      values.reduce((a, b) => a ^ b),
    )
  },
  { architectures: [90] },
)
