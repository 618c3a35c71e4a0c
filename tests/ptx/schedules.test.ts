/** What a schedule changes, since a GPU leaves it open: the order of blocks and warps, and what shared memory has that nothing wrote. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { KernelFinding } from '../../src/ptx/faults.js'
import { Machine, randomNumbers, type TestLaunch } from './machine.js'

/** A kernel (u64 out): each thread appends what it finds in %r2 to a list, whose length is the first word. */
const kernel = (body: string): string => `.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>; .shared .align 8 .b8 all[512];
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;
${body}
ret;
}
`
const APPEND = `atom.global.add.u32 %r5, [%rd1], 1; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd2, %rd2, %rd1;
  st.global.u32 [%rd2+4], %r2;`

function run(body: string, options: TestLaunch): readonly number[] {
  const machine = new Machine()
  const out = machine.put(new Uint32Array(2048))
  machine.run(machine.load(kernel(body)), 'k', options, [out])
  const [length = 0, ...list] = machine.get(out, new Uint32Array(2048))
  return list.slice(0, length)
}

function scheduleOf(seed: number): (count: number) => number {
  const random = randomNumbers(seed)
  return (count) => Math.floor(random() * count)
}

const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index)
const sorted = (list: readonly number[]): readonly number[] => [...list].sort((a, b) => a - b)

describe('a schedule orders', () => {
  const BLOCKS = `mov.u32 %r2, %ctaid.x; ${APPEND}`
  const WARPS = `shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; setp.ne.u32 %p1, %r3, 0; @%p1 ret; ${APPEND}`
  const WARPS_BEHIND_BARRIERS = `setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [all], 0; bar.sync 0; ${WARPS}`
  for (const [name, body, options, count] of [
    ['blocks that never stop', BLOCKS, { grid: 40, block: 1 }, 40],
    ['warps of a block', WARPS, { grid: 1, block: 512 }, 16],
    ['warps behind a barrier', WARPS_BEHIND_BARRIERS, { grid: 1, block: 512 }, 16],
  ] as const) {
    it(`${name}, by its seed, and runs each of them once`, () => {
      assert.deepEqual(run(body, options), numbers(count))
      const [one, again, other] = [1, 1, 2].map((seed) => run(body, { ...options, choose: scheduleOf(seed) }))
      assert.deepEqual(one, again)
      assert.notDeepEqual(one, numbers(count))
      assert.notDeepEqual(one, other)
      assert.deepEqual(sorted(one ?? []), numbers(count))
      assert.deepEqual(sorted(other ?? []), numbers(count))
    })
  }

  it('not blocks that wait for those before them, which a GPU starts in order', () => {
    const body = `mov.u32 %r2, %ctaid.x; WAIT: ld.volatile.global.u32 %r3, [%rd1]; setp.ne.u32 %p1, %r3, %r2;
      @%p1 bra WAIT; ${APPEND}`
    const options = { grid: 300, block: 1, residentBlocks: 2, choose: scheduleOf(3) }
    assert.deepEqual(run(body, options), numbers(300))
  })
})

describe('shared memory that nothing wrote', () => {
  const READ = `ld.shared.u32 %r2, [all+16]; ${APPEND}`

  it('is zeros without a schedule', () => {
    assert.deepEqual(run(READ, { block: 1 }), [0])
  })

  it('is a large number with one, and under the checks', () => {
    assert.deepEqual(run(READ, { block: 1, choose: scheduleOf(1) }), [0x7f7f7f7f])
    assert.deepEqual(run(READ, { block: 1, checked: true, report: () => {} }), [0x7f7f7f7f])
  })

  it('is so in each block, whatever the one before has left there', () => {
    const body = `ld.shared.u32 %r2, [all]; st.shared.u32 [all], %r1; ${APPEND}`
    assert.deepEqual(run(body, { grid: 3, block: 1, choose: scheduleOf(1) }), new Array(3).fill(0x7f7f7f7f))
  })

  const findingsOf = (body: string, block = 1): readonly KernelFinding[] => {
    const findings: KernelFinding[] = []
    run(body, { block, checked: true, report: (found) => findings.push(found) })
    return findings
  }

  for (const [name, body] of [
    ['a load', 'ld.shared.u32 %r2, [all+16];'],
    ['a load of two words, of which one is written', 'st.shared.u32 [all], 1; ld.shared.v2.u32 {%r2, %r3}, [all];'],
    ['an atomic', 'atom.shared.add.u32 %r2, [all], 1;'],
    ['a load through a generic address', 'mov.u64 %rd3, all; cvta.shared.u64 %rd3, %rd3; ld.u32 %r2, [%rd3];'],
  ] as const) {
    it(`is found when it is read: ${name}`, () => {
      const [found, ...others] = findingsOf(body)
      assert.equal(found?.kind, 'uninitialised-read')
      assert.match(found.message, /bytes at byte \d+ of shared memory are read, and nothing wrote them/)
      assert.deepEqual(others, [])
    })
  }

  it('is found once each thread has met the others: a word that another one writes later is a race', () => {
    const body =
      'xor.b32 %r3, %r1, 31; shl.b32 %r4, %r1, 2; shl.b32 %r3, %r3, 2; mov.u32 %r5, all; add.u32 %r3, %r3, %r5;'
    const found = findingsOf(`${body} add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], 1; ld.shared.u32 %r2, [%r3];`, 32)
    assert.deepEqual([...new Set(found.map(({ kind }) => kind))], ['shared-memory-race'])
  })

  it('is found where the thread that reads it writes it afterwards', () => {
    const found = findingsOf('ld.shared.u32 %r2, [all]; add.u32 %r2, %r2, 1; st.shared.u32 [all], %r2;')
    assert.deepEqual(
      found.map(({ kind }) => kind),
      ['uninitialised-read'],
    )
  })

  it('is found where several threads change it by atomics', () => {
    const found = findingsOf('atom.shared.add.u32 %r2, [all], 1; bar.sync 0; ld.shared.u32 %r2, [all];', 64)
    assert.deepEqual(
      found.map(({ kind }) => kind),
      ['uninitialised-read'],
    )
  })

  for (const [name, body] of [
    ['a store, then a load', 'st.shared.u32 [all+16], 1; ld.shared.u32 %r2, [all+16];'],
    ['a store of another thread, then a barrier', 'st.shared.u32 [all], 1; bar.sync 0; ld.shared.u32 %r2, [all];'],
    ['a store of single bytes', 'st.shared.u16 [all], 1; st.shared.u16 [all+2], 1; ld.shared.u32 %r2, [all];'],
    ['a copy', 'cp.async.ca.shared.global [all], [%rd1], 8; cp.async.wait_all; ld.shared.v2.u32 {%r2, %r3}, [all];'],
    ['a barrier object', 'mbarrier.init.shared.b64 [all], 1; mbarrier.arrive.shared.b64 %rd3, [all];'],
  ] as const) {
    it(`is none where something wrote it: ${name}`, () => assert.deepEqual(findingsOf(body), []))
  }
})
